"""Task ``detect``: heads of detectors are recognized and decoded, and boxes are matched as by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ptq.core.errors import DataError, UsageError
from ptq.evaluation.intervals import NO_INTERVAL
from ptq.evaluation.tasks.box_heads import BoxHead
from ptq.evaluation.tasks.box_layouts import list_heads
from ptq.evaluation.tasks.boxes import Boxes, compute_iou, match_boxes, suppress_overlaps
from ptq.evaluation.tasks.detect import DetectTask
from ptq.evaluation.tasks.request import recognize_task
from ptq.evaluation.tasks.task import Example, TaskRequest, measure_ratio

NOTHING = np.zeros((1, 30, 6), np.float32)
IMAGE = {"images": np.zeros((1, 3, 64, 64), np.float32)}
CORNERS = np.array([[4, 4, 20, 20], [30, 30, 60, 50]], np.float64)
CLASSES = np.array([2, 0])
SCORES = np.array([0.9, 0.6])
CELLS = 40
Array = np.ndarray[Any, Any]


def fill_grid(classes: int = 3) -> tuple[Array, Array]:
    """Boxes (centre and size) and scores of a grid in which two cells hold an object."""
    rng = np.random.default_rng(3)
    boxes = np.concatenate([rng.uniform(5, 60, (CELLS, 2)), rng.uniform(2, 30, (CELLS, 2))], axis=1)
    scores = rng.uniform(0, 0.1, (CELLS, classes))
    for cell, corners, label, score in zip((7, 31), CORNERS, CLASSES, SCORES, strict=True):
        boxes[cell] = [*(corners[:2] + corners[2:]) / 2, *(corners[2:] - corners[:2])]
        scores[cell, label] = score
    return boxes, scores


def yolo_v8() -> dict[str, Array]:
    return {"output0": np.concatenate(fill_grid(), axis=1).T[None].astype(np.float32)}


def yolo_v8_shares() -> dict[str, Array]:
    """As Ultralytics writes `.tflite` files."""
    boxes, scores = fill_grid()
    rows = np.concatenate([boxes / 64, scores], axis=1)
    return {"output0": rows.T[None].astype(np.float32)}


def yolo_v5() -> dict[str, Array]:
    boxes, scores = fill_grid()
    objectness = scores.max(axis=1, keepdims=True)
    rows = np.concatenate([boxes, objectness, scores / objectness], axis=1)
    return {"output": rows[None].astype(np.float32)}


def end_to_end() -> dict[str, Array]:
    rows = np.zeros((1, 30, 6), np.float32)
    rows[0, :2] = np.concatenate([CORNERS, SCORES[:, None], CLASSES[:, None]], axis=1)
    return {"output0": rows}


def rows_with_image_index() -> dict[str, Array]:
    rows = np.concatenate([[[0], [0]], CORNERS, CLASSES[:, None], SCORES[:, None]], axis=1)
    return {"output": rows.astype(np.float32)}


def corners_of_grid() -> Array:
    boxes, _ = fill_grid()
    centre, half = boxes[:, :2], boxes[:, 2:] / 2
    return np.concatenate([centre - half, centre + half], axis=1)[None].astype(np.float32)


def boxes_and_probabilities() -> dict[str, Array]:
    scores = fill_grid()[1]
    rows = np.concatenate([1 - scores.sum(axis=1, keepdims=True), scores], axis=1)
    rows = np.maximum(rows, 0) / np.maximum(rows, 0).sum(axis=1, keepdims=True)
    return {"boxes": corners_of_grid(), "scores": rows[None].astype(np.float32)}


def boxes_labels_and_scores() -> dict[str, Array]:
    return {
        "boxes": CORNERS.astype(np.float32),
        "labels": CLASSES.astype(np.int64),
        "scores": SCORES.astype(np.float32),
    }


def detr() -> dict[str, Array]:
    logits = np.full((1, CELLS, 4), -4, np.float32)
    logits[0, :, 3] = 4  # nothing
    for cell, label in zip((7, 31), CLASSES, strict=True):
        logits[0, cell, label], logits[0, cell, 3] = 6, 0
    return {"logits": logits, "pred_boxes": (fill_grid()[0] / 64)[None].astype(np.float32)}


def focal_logits() -> dict[str, Array]:
    scores = fill_grid()[1]
    logits = np.log(np.maximum(scores, 1e-3) / (1 - np.maximum(scores, 1e-3)))
    return {"logits": logits[None].astype(np.float32), "boxes": corners_of_grid()}


def tensorflow_2() -> dict[str, Array]:
    return {
        "detection_anchor_indices": np.array([[51.0, 7.0]], np.float32),
        "detection_boxes": CORNERS[None].astype(np.float32),
        "detection_classes": CLASSES[None].astype(np.float32),
        "detection_scores": SCORES[None].astype(np.float32),
        "num_detections": np.array([2.0], np.float32),
    }


def tensorflow_2_with_all_scores() -> dict[str, Array]:
    many = np.full((1, 2, 5), 0.05, np.float32)
    many[0, [0, 1], CLASSES + 1] = SCORES  # behind the background
    return {"all_scores": many, **tensorflow_2()}


HEADS = [
    yolo_v8, yolo_v8_shares, yolo_v5, end_to_end, rows_with_image_index, boxes_and_probabilities,
    boxes_labels_and_scores, detr, focal_logits, tensorflow_2, tensorflow_2_with_all_scores,
]  # fmt: skip


@pytest.mark.parametrize("make", HEADS)
def test_the_heads_of_common_detectors_are_recognized_and_decoded(make: Any) -> None:
    outputs = make()
    task, choice = recognize_task(TaskRequest(), [Example(IMAGE, outputs)] * 2)
    assert isinstance(task, DetectTask), choice
    assert isinstance(task.head, BoxHead)
    assert task.head.shares is (make in (detr, yolo_v8_shares))
    found = task.head.decode(outputs, IMAGE)
    background_first = make is boxes_and_probabilities
    np.testing.assert_allclose(found.corners, CORNERS, atol=1e-3)
    assert found.classes.tolist() == (CLASSES + background_first).tolist()
    if make not in (detr, boxes_and_probabilities):
        np.testing.assert_allclose(found.scores, SCORES, atol=1e-6)


@pytest.mark.parametrize("names", [("detection_classes", "detection_scores"), ("a", "b")])
def test_a_column_of_ones_is_the_class_beside_one_of_fractions(names: tuple[str, str]) -> None:
    ones = np.ones((1, 2), np.float32)
    outputs = {"boxes": CORNERS[None].astype(np.float32), names[0]: ones}
    outputs[names[1]] = SCORES[None].astype(np.float32)
    task, _ = recognize_task(TaskRequest(), [Example(IMAGE, outputs)])
    assert isinstance(task, DetectTask)
    found = task.head.decode(outputs, IMAGE)
    np.testing.assert_allclose(found.scores, SCORES, rtol=1e-6)
    assert found.classes.tolist() == [1, 1]


@pytest.mark.parametrize(
    "output",
    [
        np.random.default_rng(0).normal(size=(1, 22, 2100)),
        np.random.default_rng(0).normal(size=(1, 197, 64)),
        np.random.default_rng(0).normal(size=(1, 300, 6)),
        np.random.default_rng(0).random((1, 22, 40)),
        np.random.default_rng(0).random((1, 22, 2100)),
        np.random.default_rng(0).dirichlet(np.ones(40), (1, 22)),
        np.random.default_rng(0).random((1, 10)),
    ],
)
def test_other_outputs_are_not_taken_for_boxes(output: Array) -> None:
    request = TaskRequest()
    choice = recognize_task(request, [Example(IMAGE, {"y": output.astype(np.float32)})])[1]
    assert choice.name != "detect"


def test_the_metadata_of_an_exporter_say_how_many_columns_are_scores() -> None:
    outputs = yolo_v8()
    more = np.random.default_rng(1).normal(size=(1, 32, CELLS)).astype(np.float32)  # of masks
    outputs["output0"] = np.concatenate([outputs["output0"], more], axis=1)
    names = {"names": "{0: 'a', 1: 'b', 2: 'c'}", "task": "segment"}
    task, _ = recognize_task(TaskRequest(None, names), [Example(IMAGE, outputs)])
    assert isinstance(task, DetectTask)
    assert task.head.decode(outputs, IMAGE).classes.tolist() == CLASSES.tolist()
    assert recognize_task(TaskRequest(), [Example(IMAGE, outputs)])[1].name != "detect"


@pytest.mark.parametrize("names", ["", "{", "{0: 'a'", "7", "[" * 400])
def test_names_that_are_none_are_no_names(names: str) -> None:
    task, _ = recognize_task(TaskRequest(None, {"names": names}), [Example(IMAGE, yolo_v8())])
    assert isinstance(task, DetectTask)


def test_a_detector_that_is_asked_for_but_has_no_boxes_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^task detect: no output fits \(y \[1, 10\]\)"):
        recognize_task(TaskRequest("detect"), [Example(IMAGE, {"y": np.ones((1, 10), np.float32)})])


def test_a_head_of_a_few_boxes_is_read_where_it_is_asked_for() -> None:
    rows = np.array([[20, 20, 10, 8, 0.9, 0.1], [50, 40, 12, 9, 0.2, 0.7]] * 4, np.float32)
    columns = np.concatenate([rows.T, np.zeros((1, 8), np.float32)])[
        None
    ]  # centre, size, three classes
    examples = [Example({"images": np.zeros((1, 3, 96, 64), np.float32)}, {"y": columns})]
    task, choice = recognize_task(TaskRequest("detect"), examples)
    assert choice.name == "detect"
    assert isinstance(task, DetectTask)
    assert recognize_task(TaskRequest(), examples)[1].name != "detect"


PICTURE = {"images": np.zeros((1, 3, 96, 64), np.float32)}
"""12 × 8, 6 × 4, 3 × 2 cells of 8, 16 and 32 pixels, and 2 × 1 of 64 pixels."""


def yolox() -> dict[str, Array]:
    """Raw rows: an object in the cell (row 4, column 3) of 8 pixels, one in the cell (1, 2) of 16 pixels."""
    rows = np.zeros((1, 126, 7), np.float32)
    rows[0, -1, 2:4] = -1  # logarithms of sizes
    rows[0, 4 * 8 + 3] = [0.5, 0.25, np.log(2), np.log(1.5), 0.9, 0.1, 1]
    rows[0, 96 + 1 * 4 + 2] = [0, 0.5, 0, np.log(2), 0.5, 0.8, 0]
    return {"output": rows}


def picodet() -> dict[str, Array]:
    """Scores and distributions of distances by level; the same objects, seen from the centres of the cells."""
    outputs = {}
    for level, cells in enumerate((96, 24, 6, 2)):
        outputs[f"s{level}"] = np.zeros((1, cells, 2), np.float32)
        outputs[f"d{level}"] = np.full((1, cells, 4, 8), -1, np.float32)
    for level, cell, scores, sides in (
        (0, 35, (0.09, 0.9), (1, 1, 1, 2)),
        (1, 6, (0.4, 0), (1, 0, 0, 1)),
    ):
        outputs[f"s{level}"][0, cell] = scores
        outputs[f"d{level}"][0, cell, range(4), sides] = 40
    return {name: y.reshape(1, y.shape[1], -1) for name, y in outputs.items()}


@pytest.mark.parametrize(
    ("make", "corners", "scores"),
    [
        (yolox, [[20, 28, 36, 40], [24, 8, 40, 40]], [0.9, 0.4]),
        (picodet, [[20, 28, 36, 52], [24, 24, 40, 40]], [0.9, 0.4]),
    ],
)
def test_boxes_relative_to_cells_are_placed_by_the_size_of_the_image(
    make: Any, corners: Any, scores: Any
) -> None:
    task, choice = recognize_task(TaskRequest(), [Example(PICTURE, make())] * 2)
    assert isinstance(task, DetectTask), choice
    assert "of cells of 8, 16, 32" in choice.why
    found = task.head.decode(make(), PICTURE)
    np.testing.assert_allclose(found.corners, np.array(corners, float), atol=1e-3)
    np.testing.assert_allclose(found.scores, scores, atol=1e-6)
    assert found.classes.tolist() == [1, 0]


@pytest.mark.parametrize("make", [yolox, picodet])
def test_cells_of_another_image_size_show_no_boxes(make: Any) -> None:
    assert recognize_task(TaskRequest(), [Example(IMAGE, make())])[1].name != "detect"


def test_an_image_on_its_side_has_its_own_cells() -> None:
    """Both sizes have 126 cells; the number of cells does not tell them apart."""
    task, _ = recognize_task(TaskRequest(), [Example(PICTURE, yolox())])
    assert isinstance(task, DetectTask)
    side = {"images": np.zeros((1, 3, 64, 96), np.float32)}
    found = task.head.decode(yolox(), side)
    row, column = divmod(4 * 8 + 3, 12)
    x, y = 8 * (column + 0.5), 8 * (row + 0.25)
    np.testing.assert_allclose(found.corners[0], [x - 8, y - 6, x + 8, y + 6])


def test_images_of_several_sizes_are_compared() -> None:
    large = {"images": np.zeros((1, 3, 128, 64), np.float32)}
    rows = np.zeros((1, 168, 7), np.float32)
    rows[0, -1, 2:4] = -1
    rows[0, :126] = yolox()["output"][0]
    task, _ = recognize_task(
        TaskRequest(), [Example(PICTURE, yolox()), Example(large, {"output": rows})]
    )
    assert isinstance(task, DetectTask)
    assert task.compare({"output": rows}, {"output": rows}, large)[:2].tolist() == [0, 2]


def test_outputs_without_the_cells_of_their_image_are_refused_with_both_numbers() -> None:
    task, _ = recognize_task(TaskRequest(), [Example(PICTURE, yolox())])
    assert isinstance(task, DetectTask)
    with pytest.raises(DataError, match=r"boxes of 100 cells, and the image has 126"):
        task.head.decode({"output": yolox()["output"][:, :100]}, PICTURE)


@pytest.mark.parametrize("kind", ["softmax", "sigmoid", "labels"])
def test_shares_for_each_cell_are_no_boxes(kind: str) -> None:
    """A classifier of 126 places that are as many as the cells of the image."""
    logits = np.random.default_rng(0).standard_normal((1, 126, 10))
    shares = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    found = {"softmax": shares, "sigmoid": 1 / (1 + np.exp(-logits)), "labels": shares > 0.1}
    array = found[kind] if kind == "labels" else found[kind].astype(np.float32)
    _, choice = recognize_task(TaskRequest(), [Example(PICTURE, {"y": array})] * 2)
    assert choice.name != "detect"


@pytest.mark.parametrize("columns", [2, 3])
def test_a_table_too_narrow_for_boxes_is_not_read_as_corners(columns: int) -> None:
    """Two maps of four columns; the 24 rows of the first are ``columns`` numbers each of the second."""
    boxes = np.repeat(np.arange(6), 16).reshape(1, 6, 4, 4).astype(np.float32)
    other = np.sort(np.random.default_rng(0).normal(size=24 * columns)).astype(np.float32)
    outputs = {"boxes": boxes, "other": other.reshape(1, -1, 4)}
    [head] = [h for h in list_heads(outputs, {}) if h.boxes == "boxes"]
    assert head.scores == "other"


def test_overlap_is_intersection_over_union() -> None:
    one = np.array([[0.0, 0, 10, 10], [0, 0, 0, 0]])
    other = np.array([[5.0, 0, 15, 10], [0, 0, 10, 10], [20, 20, 30, 30]])
    np.testing.assert_allclose(compute_iou(one, other), [[1 / 3, 1, 0], [0, 0, 0]])


def test_suppression_keeps_the_highest_score_of_a_class() -> None:
    corners = np.array([[0.0, 0, 10, 10], [1, 0, 11, 10], [1, 0, 11, 10], [30, 30, 40, 40]])
    found = Boxes(corners, np.array([0.5, 0.9, 0.4, 0.3]), np.array([0, 0, 1, 0]))
    kept = suppress_overlaps(found, 0.45)
    assert kept.scores.tolist() == [0.9, 0.4, 0.3]


def test_no_box_is_matched_twice_and_classes_are_not_mixed() -> None:
    same = np.array([[0.0, 0, 10, 10]] * 2)
    reference = Boxes(same, np.array([0.9, 0.8]), np.array([0, 0]))
    one = Boxes(same[:1], np.array([0.7]), np.array([0]))
    other = Boxes(same[:1], np.array([0.7]), np.array([1]))
    assert match_boxes(reference, one).tolist() == [0, -1]
    assert match_boxes(reference, other).tolist() == [-1, -1]


def test_lost_and_new_boxes_are_counted() -> None:
    before, after = yolo_v8(), yolo_v8()
    after["output0"][0, 4 + CLASSES[0], 7] = 0.2  # below the threshold
    after["output0"][0, 4, 12] = 0.8  # a new one
    after["output0"][0, 0, 31] += 3  # moved by a tenth of its width
    task, _ = recognize_task(TaskRequest(), [Example(IMAGE, before)])
    assert isinstance(task, DetectTask)
    changed, decisions, new, boxes, overlap = task.compare(before, after, IMAGE)
    assert (changed, decisions, new, boxes) == (1, 2, 1, 2)
    assert overlap == pytest.approx(27 / 33)
    meter = task.start()
    for _ in range(5):
        meter.add(Example(IMAGE, before), after)
        meter.add(Example(IMAGE, before), before)
    drop, figures = meter.measure_drop(), meter.measure_figures()
    assert drop.metric == "agreement of boxes"
    assert drop.points == pytest.approx(100 / 4)
    assert drop.lo < 25 < drop.hi
    assert figures[0].value == pytest.approx(1 / 4)
    assert figures[1].value == pytest.approx((5 * 27 / 33 + 10) / 15)


def test_boxes_of_which_no_sample_has_one_show_no_head() -> None:
    outputs = {"boxes": np.zeros((1, 0, 4), np.float32), "y": np.ones((1, 6, 4), np.float32)}
    assert recognize_task(TaskRequest(), [Example(IMAGE, outputs)] * 2)[1].name != "detect"


def test_the_mean_overlap_is_of_the_draws_that_have_boxes() -> None:
    found, other = end_to_end()["output0"], end_to_end()["output0"]
    other[0, 0, :4] = [4, 4, 20, 19]  # 15 of 16 rows
    meter = DetectTask(next(list_heads(end_to_end(), {}, asked=True))).start()
    for one, another in [(NOTHING, NOTHING)] * 6 + [(found, other), (found, found)]:
        meter.add(Example(IMAGE, {"output0": one}), {"output0": another})
    figure = meter.measure_figures()[1]
    assert figure.name == "mean IoU of equal boxes"
    assert figure.value == pytest.approx((15 / 16 + 3) / 4)
    assert figure.interval == pytest.approx(((15 / 16 + 1) / 2, 1))


def test_without_equal_boxes_there_is_no_mean_overlap() -> None:
    meter = DetectTask(next(list_heads(end_to_end(), {}, asked=True))).start()
    meter.add(Example(IMAGE, {"output0": end_to_end()["output0"]}), {"output0": NOTHING})
    assert [figure.name for figure in meter.measure_figures()] == ["boxes that float does not have"]


@pytest.mark.parametrize("other", [[0, 0, 0, 0, 0], [2, 2, 0, 0, 0], [0, 0, 1, 1, 0]])
def test_one_image_with_equal_boxes_has_no_interval_of_its_mean_overlap(other: list[int]) -> None:
    rows = np.array([[0, 3, 0, 3, 2.7]] + [other] * 5)
    [_, overlap] = DetectTask.ratios
    value, interval = measure_ratio(rows, overlap.compute)
    assert (value, interval) == (pytest.approx(0.9), NO_INTERVAL)
