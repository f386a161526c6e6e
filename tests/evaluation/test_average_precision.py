"""mAP of boxes. Oracles: figures by hand, and an implementation of COCO's definition with loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ptq.data.labels.labelled_boxes import LabelledBoxes
from ptq.evaluation.tasks.average_precision import THRESHOLDS, PrecisionMeter
from ptq.evaluation.tasks.boxes import Boxes, compute_iou

Array = np.ndarray[Any, Any]


def boxes(corners: Any, classes: Any, scores: Any = None) -> Boxes:
    numbers = np.asarray(classes, np.int64)
    given = np.ones(len(numbers)) if scores is None else np.asarray(scores, np.float64)
    return Boxes(np.asarray(corners, np.float64).reshape(-1, 4), given, numbers)


def label(truth: Boxes, ignored: Any = ()) -> LabelledBoxes:
    flags = np.isin(np.arange(len(truth)), ignored)
    return LabelledBoxes(truth.corners, truth.classes, flags)


def measure(pairs: list[tuple[Boxes, Boxes]]) -> Array:
    meter = PrecisionMeter()
    for found, labelled in pairs:
        meter.add(found, label(labelled))
    return meter.measure(np.ones((1, len(pairs))))[0]


def average_precision(pairs: list[tuple[Boxes, Boxes]], least: float) -> float:
    """COCO's definition, a box after another."""
    per_class = []
    for label in sorted({int(c) for _, truth in pairs for c in truth.classes}):
        hits, total = [], 0
        for found, truth in pairs:
            mine = truth.corners[truth.classes == label]
            total += len(mine)
            taken: set[int] = set()
            for k in np.argsort(-found.scores, kind="stable"):
                if found.classes[k] != label:
                    continue
                overlaps = compute_iou(found.corners[k : k + 1], mine)[0]
                able = [j for j in range(len(mine)) if j not in taken and overlaps[j] >= least]
                sides = found.corners[k, 2:] - found.corners[k, :2]
                if not able and sides.prod() < 0:
                    continue
                if able:
                    taken.add(max(reversed(able), key=lambda j: overlaps[j]))
                hits.append((found.scores[k], bool(able)))
        hits.sort(key=lambda hit: -hit[0])
        right = np.cumsum([hit for _, hit in hits]) if hits else np.zeros(0)
        precision = right / np.arange(1, len(hits) + 1)
        recall = right / total
        levels = [max(precision[recall >= r], default=0.0) for r in np.linspace(0, 1, 101)]
        per_class.append(float(np.mean(levels)))
    return float(np.mean(per_class))


def draw_pairs(images: int) -> list[tuple[Boxes, Boxes]]:
    rng = np.random.default_rng(5)
    pairs = []
    for _ in range(images):
        count = int(rng.integers(0, 5))
        near = rng.uniform(0, 60, (count, 2))
        truth = np.concatenate([near, near + rng.uniform(8, 30, (count, 2))], axis=1)
        classes = rng.integers(0, 3, count)
        noise = np.concatenate(
            [truth + rng.normal(0, 0.3, truth.shape), rng.uniform(0, 90, (3, 4))]
        )
        labels = np.concatenate([classes, rng.integers(0, 3, 3)])
        pairs.append((boxes(noise, labels, rng.random(len(noise))), boxes(truth, classes)))
    return pairs


def test_random_boxes_have_the_precision_of_the_definition() -> None:
    pairs = draw_pairs(25)
    expected = [average_precision(pairs, least) for least in THRESHOLDS]
    np.testing.assert_allclose(measure(pairs), expected, atol=1e-9)
    assert 0.05 < expected[-1] < expected[0] < 0.95


def test_boxes_equal_to_the_labels_have_precision_one_and_none_have_zero() -> None:
    truth = boxes([[0, 0, 10, 10], [20, 20, 40, 40]], [0, 1])
    nothing = boxes(np.empty((0, 4)), [])
    assert measure([(truth, truth)]).tolist() == pytest.approx([1.0] * 10)
    assert measure([(nothing, truth)]).tolist() == [0.0] * 10


def test_a_moved_box_counts_up_to_its_overlap() -> None:
    truth, moved = boxes([[0, 0, 100, 10]], [0]), boxes([[20, 0, 120, 10]], [0])
    assert compute_iou(moved.corners, truth.corners)[0, 0] == pytest.approx(2 / 3)
    assert (measure([(moved, truth)]) > 0.5).tolist() == [True] * 4 + [False] * 6


def test_a_draw_weighs_images_as_often_as_it_takes_them() -> None:
    pairs = draw_pairs(6)
    meter = PrecisionMeter()
    for found, truth in pairs:
        meter.add(found, label(truth))
    draw = np.array([[2.0, 0, 1, 1, 0, 2]])
    repeated = [pairs[k] for k in (0, 0, 2, 3, 5, 5)]
    expected = [average_precision(repeated, least) for least in THRESHOLDS]
    np.testing.assert_allclose(meter.measure(draw)[0], expected, atol=1e-9)


def test_boxes_in_a_crowd_are_neither_right_nor_wrong() -> None:
    """The crowd covers two boxes of which the first alone is also labelled; a box of another class is wrong."""
    truth = boxes([[0, 0, 10, 10], [0, 0, 100, 100]], [0, 0])
    found = boxes(
        [[50, 50, 60, 60], [0, 0, 10, 10], [200, 0, 210, 10], [50, 50, 60, 60]],
        [0, 0, 0, 1],
        [0.9, 0.8, 0.7, 0.95],
    )
    meter = PrecisionMeter()
    meter.add(found, label(truth, [1]))
    assert meter.measure(np.ones((1, 1)))[0].tolist() == pytest.approx([1.0] * 10)
    alone = PrecisionMeter()
    alone.add(found, label(boxes([[0, 0, 10, 10]], [0])))
    assert alone.measure(np.ones((1, 1)))[0].tolist() == pytest.approx([0.5] * 10)


def test_half_of_a_box_in_a_crowd_is_enough_at_the_least_overlap() -> None:
    truth = boxes([[0, 0, 10, 10], [100, 0, 110, 100]], [0, 0])
    meter = PrecisionMeter()  # the better box lies in the crowd with 60 % of its area
    meter.add(boxes([[104, 0, 114, 9], [0, 0, 10, 10]], [0, 0], [0.9, 0.8]), label(truth, [1]))
    expected = [1.0] * 3 + [0.5] * 7
    assert meter.measure(np.ones((1, 1)))[0].tolist() == pytest.approx(expected)


def test_of_labels_with_equal_overlap_the_last_one_is_taken() -> None:
    # the first box overlaps both labels by 2/3; the second is the left label, and overlaps the right one by 3/7
    left, right = [0, 0, 10, 10], [4, 0, 14, 10]
    found = boxes([[2, 0, 12, 10], left], [1, 1], [0.9, 0.8])
    assert measure([(found, boxes([left, right], [1, 1]))])[0] == 1
    # the second box is wrong: half of the labels are found, so 51 of 101 recalls are reached
    assert measure([(found, boxes([right, left], [1, 1]))])[0] == pytest.approx(51 / 101)


def test_a_recall_of_seven_in_ten_is_rounded_as_by_pycocotools() -> None:
    near = np.arange(0, 100, 10)[:, None] * np.ones(2)
    truth = np.concatenate([near, near + 10], axis=1)
    found, labelled = boxes(truth[:7], [1] * 7), boxes(truth, [1] * 10)
    assert measure([(found, labelled)]) == pytest.approx(70 / 101)  # recalls of 0 … 0.69


@pytest.mark.parametrize(
    ("corners", "counts"),
    [
        ([20, 20, 5, 30], False),
        ([20, 20, 30, 5], False),
        ([20, 20, 5, 5], True),  # the product of two negative sides
        ([20, 20, 20, 30], True),
        ([50, 50, 60, 60], True),
        ([50, 50, 2e5, 2e5], False),
    ],
)
def test_a_box_whose_area_coco_leaves_out_is_not_wrong(corners: list[float], counts: bool) -> None:
    found = boxes([corners, [0, 0, 10, 10]], [1, 1], [0.9, 0.8])
    precision = measure([(found, boxes([[0, 0, 10, 10]], [1]))])
    assert precision == pytest.approx(1 / 2 if counts else 1)


def test_a_hundred_boxes_count_of_each_class_and_image() -> None:
    near = np.stack([20.0 * np.arange(120), np.zeros(120)], axis=1)
    corners, classes = np.concatenate([near, near + 10], axis=1), np.arange(120) % 2
    both = boxes(corners, classes)
    assert measure([(both, both)])[0] == pytest.approx(1)
    one = boxes(corners, np.zeros(120))
    assert measure([(one, one)])[0] == pytest.approx(84 / 101)  # recalls up to 100 of 120


def test_draws_of_the_same_images_are_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    meter = PrecisionMeter()
    for found, truth in draw_pairs(6):
        meter.add(found, label(truth))
    first = meter.measure_draws()
    assert first.shape == (201, 10)
    monkeypatch.setattr(PrecisionMeter, "measure", None)
    assert meter.measure_draws() is first
