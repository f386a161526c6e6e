"""mAP of boxes. Oracles: figures by hand, and an implementation of COCO's definition with loops."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import ptq
from ptq.core.errors import DataError
from ptq.data.box_labels import read_box_labels
from ptq.evaluation.tasks.average_precision import THRESHOLDS, PrecisionMeter
from ptq.evaluation.tasks.boxes import Boxes, compute_iou

Array = np.ndarray[Any, Any]


def boxes(corners: Any, classes: Any, scores: Any = None) -> Boxes:
    numbers = np.asarray(classes, np.int64)
    given = np.ones(len(numbers)) if scores is None else np.asarray(scores, np.float64)
    return Boxes(np.asarray(corners, np.float64).reshape(-1, 4), given, numbers)


def measure(pairs: list[tuple[Boxes, Boxes]]) -> Array:
    meter = PrecisionMeter()
    for found, labelled in pairs:
        meter.add(found, labelled)
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
                if able:
                    taken.add(max(able, key=lambda j: overlaps[j]))
                hits.append((found.scores[k], bool(able)))
        hits.sort(key=lambda hit: -hit[0])
        right = np.cumsum([hit for _, hit in hits]) if hits else np.zeros(0)
        precision = right / np.arange(1, len(hits) + 1)
        recall = right / total
        levels = [max(precision[recall >= r - 1e-12], default=0.0) for r in np.linspace(0, 1, 101)]
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
        meter.add(found, truth)
    draw = np.array([[2.0, 0, 1, 1, 0, 2]])
    repeated = [pairs[k] for k in (0, 0, 2, 3, 5, 5)]
    expected = [average_precision(repeated, least) for least in THRESHOLDS]
    np.testing.assert_allclose(meter.measure(draw)[0], expected, atol=1e-9)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    (tmp_path / "labels").mkdir()
    for name, size in (("a.png", (100, 50)), ("b.png", (40, 80))):
        Image.new("RGB", size).save(tmp_path / "images" / name)
    return tmp_path


NAMES = ["a.png", "b.png"]
BOX = ptq.Preprocess(size=(64, 64), letterbox=114)
COCO: dict[str, Any] = {
    "images": [{"id": 9, "file_name": "a.png"}, {"id": 4, "file_name": "train/b.png"}],
    "categories": [{"id": 7, "name": "cat"}, {"id": 3, "name": "dog"}],
    "annotations": [
        {"image_id": 9, "category_id": 7, "bbox": [10, 20, 30, 10]},
        {"image_id": 4, "category_id": 3, "bbox": [0, 0, 40, 80]},
        {"image_id": 9, "category_id": 3, "bbox": [0, 0, 9, 9], "iscrowd": 1},
    ],
}


def test_texts_of_yolo_are_moved_into_the_letterbox(folder: Path) -> None:
    (folder / "labels" / "a.txt").write_text("2 0.5 0.5 0.2 0.4\n\n0 0.1 0.1 0.2 0.2\n")
    found = read_box_labels(folder / "labels", folder / "images", NAMES, BOX)
    # 100 × 50 pixels become 64 × 32 between borders of 16
    np.testing.assert_allclose(found["a.png"].corners[0], [25.6, 25.6, 38.4, 38.4])
    assert found["a.png"].classes.tolist() == [2, 0]
    assert len(found["b.png"].classes) == 0


@pytest.mark.parametrize("labels", [".", "labels"])
@pytest.mark.parametrize("below", ["", "val/"])
def test_texts_of_a_data_set_are_found_where_labels_stand_for_images(
    folder: Path, labels: str, below: str
) -> None:
    names = [f"images/{below}a.png", f"images/{below}b.png"]
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (64, 64)).save(folder / name)
    (folder / "labels" / below).mkdir(exist_ok=True)
    (folder / "labels" / below / "a.txt").write_text("1 0.5 0.5 0.25 0.25")
    found = read_box_labels(folder / labels, folder, names, BOX)
    np.testing.assert_allclose(found[names[0]].corners, [[24, 24, 40, 40]])
    assert len(found[names[1]].classes) == 0


def test_annotations_of_coco_are_numbered_by_id_or_by_the_names_of_the_model(folder: Path) -> None:
    path = folder / "coco.json"
    path.write_text(json.dumps(COCO))
    plain = ptq.Preprocess(size=(50, 200))
    found = read_box_labels(path, folder / "images", NAMES, plain)
    np.testing.assert_allclose(found["a.png"].corners, [[20, 20, 80, 30]])
    np.testing.assert_allclose(found["b.png"].corners, [[0, 0, 200, 50]])
    assert (found["a.png"].classes.tolist(), found["b.png"].classes.tolist()) == ([1], [0])
    named = read_box_labels(path, folder / "images", NAMES, plain, ("bird", "dog", "cat"))
    assert (named["a.png"].classes.tolist(), named["b.png"].classes.tolist()) == ([2], [1])


def test_boxes_move_with_resizing_and_cropping(folder: Path) -> None:
    (folder / "labels" / "a.txt").write_text("0 0.5 0.5 0.2 0.4")
    cropped = ptq.Preprocess(resize=100, crop=(80, 80))
    found = read_box_labels(folder / "labels", folder / "images", NAMES, cropped)
    # 200 × 100 after resizing, of which 60 on the left and 10 at the top are cut
    np.testing.assert_allclose(found["a.png"].corners[0], [20, 20, 60, 60])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "0 0.5 0.5 0.2", "lines are not 'class x y width height'"),
        ("a.txt", "cat 0.5 0.5 0.2 0.2", "lines are not 'class x y width height'"),
        ("a.txt", "0 50 50 20 20", "a value is not a share from 0 to 1"),
        ("other.txt", "0 0.5 0.5 0.2 0.2", "no box belongs to an image of"),
    ],
)
def test_texts_that_are_no_labels_are_refused(
    folder: Path, name: str, text: str, message: str
) -> None:
    (folder / "labels" / name).write_text(text)
    with pytest.raises(DataError, match=message):
        read_box_labels(folder / "labels", folder / "images", NAMES, BOX)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"images": 3, "annotations": [], "categories": []}']
)
def test_a_file_that_is_not_of_coco_is_refused(folder: Path, text: str) -> None:
    path = folder / "coco.json"
    path.write_text(text)
    with pytest.raises(DataError, match=r"not COCO's annotations"):
        read_box_labels(path, folder / "images", NAMES, BOX)


def test_a_path_that_does_not_exist_is_named(folder: Path) -> None:
    with pytest.raises(DataError, match=r"absent does not exist; give COCO's JSON file or a fol"):
        read_box_labels(folder / "absent", folder / "images", NAMES, BOX)
