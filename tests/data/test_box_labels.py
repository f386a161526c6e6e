"""Labels of boxes in COCO's JSON and in YOLO's texts, moved as the preprocessing moves pixels."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import ptq
from ptq.core.errors import DataError
from ptq.data.box_labels import read_box_labels
from ptq.data.formats.decode import decode, read_size
from ptq.data.labels.labelled_boxes import BoxLabels, LabelledBoxes


def read_all(
    labels: Path,
    images: Path,
    names: Sequence[str],
    applied: ptq.Preprocess,
    class_names: Sequence[str] = (),
    every_name: Collection[str] = (),
) -> BoxLabels:
    return read_box_labels(labels, images, names, every_name or names, applied, class_names)


def read(*options: Any) -> Mapping[str, LabelledBoxes]:
    """The boxes with the likeliest numbers of their classes."""
    found = read_all(*options)
    return found.number_classes(found.numberings[0])


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
    found = read(folder / "labels", folder / "images", NAMES, BOX)
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
    found = read(folder / labels, folder, names, BOX)
    np.testing.assert_allclose(found[names[0]].corners, [[24, 24, 40, 40]])
    assert len(found[names[1]].classes) == 0


def test_annotations_of_coco_are_numbered_by_id_or_by_the_names_of_the_model(folder: Path) -> None:
    path = folder / "coco.json"
    path.write_text(json.dumps(COCO))
    plain = ptq.Preprocess(size=(50, 200))
    found = read(path, folder / "images", NAMES, plain)
    np.testing.assert_allclose(found["a.png"].corners, [[20, 20, 80, 30], [0, 0, 18, 9]])
    np.testing.assert_allclose(found["b.png"].corners, [[0, 0, 200, 50]])
    assert (found["a.png"].classes.tolist(), found["b.png"].classes.tolist()) == ([1, 0], [0])
    named = read(path, folder / "images", NAMES, plain, ("bird", "dog", "cat"))
    assert (named["a.png"].classes.tolist(), named["b.png"].classes.tolist()) == ([2, 1], [1])


def test_boxes_move_with_resizing_and_cropping(folder: Path) -> None:
    (folder / "labels" / "a.txt").write_text("0 0.5 0.5 0.2 0.4")
    cropped = ptq.Preprocess(resize=100, crop=(80, 80))
    found = read(folder / "labels", folder / "images", NAMES, cropped)
    # 200 × 100 after resizing, of which 60 on the left and 10 at the top are cut
    np.testing.assert_allclose(found["a.png"].corners[0], [20, 20, 60, 60])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "0 0.5 0.5 0.2", "a line has 4 values; lines are 'class x y width height'"),
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
        read(folder / "labels", folder / "images", NAMES, BOX)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"images": 3, "annotations": [], "categories": []}']
)
def test_a_file_that_is_not_of_coco_is_refused(folder: Path, text: str) -> None:
    path = folder / "coco.json"
    path.write_text(text)
    with pytest.raises(DataError, match=r"not COCO's annotations"):
        read(path, folder / "images", NAMES, BOX)


def test_a_byte_order_mark_is_no_part_of_labels(folder: Path) -> None:
    (folder / "labels" / "a.txt").write_text("2 0.5 0.5 0.2 0.4\n", "utf-8-sig")
    assert len(read(folder / "labels", folder / "images", NAMES, BOX)["a.png"]) == 1
    path = folder / "coco.json"
    path.write_text(json.dumps(COCO), "utf-8-sig")
    assert len(read(path, folder / "images", NAMES, BOX)["a.png"]) == 2


def test_an_annotation_of_an_image_that_coco_does_not_list_is_named(folder: Path) -> None:
    path = folder / "coco.json"
    path.write_text(json.dumps({**COCO, "images": COCO["images"][:1]}))
    with pytest.raises(DataError, match=r"is of image 4, which `images` does not list; add the im"):
        read(path, folder / "images", NAMES, BOX)


def test_a_path_that_does_not_exist_is_named(folder: Path) -> None:
    with pytest.raises(DataError, match=r"absent does not exist; give COCO's JSON file or a fol"):
        read(folder / "absent", folder / "images", NAMES, BOX)


def test_crowds_of_coco_are_ignored_and_not_left_out(folder: Path) -> None:
    path = folder / "coco.json"
    path.write_text(json.dumps(COCO))
    found = read_all(path, folder / "images", NAMES, ptq.Preprocess(size=(50, 100)))
    assert found.images["a.png"].ignored.tolist() == [False, True]
    assert found.images["b.png"].ignored.tolist() == [False]


def test_the_ways_in_which_a_model_may_number_categories_are_listed_once(folder: Path) -> None:
    path = folder / "coco.json"
    path.write_text(json.dumps(COCO))
    found = read_all(path, folder / "images", NAMES, BOX)
    assert [way.numbers for way in found.numberings] == [(0, 1), (3, 7), (1, 2), (2, 6)]
    ids = {**COCO, "categories": [{"id": 0, "name": "cat"}, {"id": 1, "name": "dog"}]}
    path.write_text(
        json.dumps({**ids, "annotations": [{**COCO["annotations"][0], "category_id": 1}]})
    )
    found = read_all(path, folder / "images", NAMES, BOX)
    assert [way.numbers for way in found.numberings] == [(0, 1), (1, 2)]


def test_categories_that_the_model_does_not_name_are_listed(folder: Path) -> None:
    path = folder / "coco.json"
    path.write_text(json.dumps(COCO))
    found = read_all(path, folder / "images", NAMES, BOX, ("hound", "cat"))
    assert found.notes == (
        "1 of 2 categories is left out of mAP: the model has no class of that name (dog)",
    )
    assert [way.numbers for way in found.numberings] == [(1,)]


def test_images_that_coco_does_not_list_are_no_empty_images(folder: Path) -> None:
    path = folder / "coco.json"
    path.write_text(
        json.dumps({**COCO, "images": COCO["images"][:1], "annotations": COCO["annotations"][:1]})
    )
    found = read_all(path, folder / "images", NAMES, BOX)
    assert list(found.images) == ["a.png"]
    assert found.notes == ("1 of 2 images is left out of mAP: coco.json does not list it",)


def test_an_image_of_another_folder_gets_no_boxes_by_its_name(folder: Path) -> None:
    names = ["one/a.png", "two/a.png"]
    for name in names:
        (folder / "images" / name).parent.mkdir()
        Image.new("RGB", (64, 64)).save(folder / "images" / name)
    path = folder / "coco.json"
    listed = [{"id": 9, "file_name": "one/a.png"}, {"id": 4, "file_name": "b.png"}]
    path.write_text(json.dumps({**COCO, "images": listed}))
    for asked in (names, names[1:]):
        every = [*names, "b.png"]
        found = read_all(path, folder / "images", [*asked, "b.png"], BOX, (), every)
        assert "two/a.png" not in found.images
        assert ("one/a.png" in found.images) == (asked == names)
    (folder / "labels" / "a.txt").write_text("0 0.5 0.5 0.2 0.4")
    with pytest.raises(DataError, match="no box belongs to an image of"):
        read_all(folder / "labels", folder / "images", names, BOX)


def test_polygons_of_texts_are_their_bounding_boxes(folder: Path) -> None:
    text = "0 0.5 0.5 0.6 0.9 0.7 0.4\n1 0.5 0.5 0.25 0.25\n0 0.1 0.1 0.2 0.1 0.2 0.3 0.1 0.3\n"
    (folder / "labels" / "a.txt").write_text(text)
    plain = ptq.Preprocess(size=(100, 100))
    found = read(folder / "labels", folder / "images", NAMES, plain)["a.png"]
    expected = [[50, 40, 70, 90], [37.5, 37.5, 62.5, 62.5], [10, 10, 20, 30]]
    np.testing.assert_allclose(found.corners, expected)
    assert found.classes.tolist() == [0, 1, 0]


@pytest.mark.parametrize("landmarks", [1, 4, 5])
def test_landmarks_with_visibility_are_left_out(folder: Path, landmarks: int) -> None:
    rows = [
        f"2 0.5 0.5 0.2 0.4{' 0.5 0.5 2' * landmarks}",
        f"0 0.1 0.1 0.2 0.2{' 0 0 0' * landmarks}",
    ]
    (folder / "labels" / "a.txt").write_text("\n".join(rows))
    plain = ptq.Preprocess(size=(100, 100))
    found = read(folder / "labels", folder / "images", NAMES, plain)["a.png"]
    np.testing.assert_allclose(found.corners, [[40, 30, 60, 70], [0, 0, 20, 20]])
    assert found.classes.tolist() == [2, 0]


@pytest.mark.parametrize(
    "other", ["1 0.1 0.1 0.3 0.1 0.3 0.3\n1 0.1 0.1 0.3 0.1 0.3 0.3 0.1 0.3", ""]
)
def test_polygons_at_the_edge_of_the_image_are_no_boxes_with_landmarks(
    folder: Path, other: str
) -> None:
    (folder / "labels" / "a.txt").write_text("0 0.7 0.6 1 0.6 1 0.9 1 1 0.7 1\n" + other)
    plain = ptq.Preprocess(size=(100, 100))
    found = read(folder / "labels", folder / "images", NAMES, plain)["a.png"]
    np.testing.assert_allclose(found.corners[0], [70, 60, 100, 100])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0.7 0.5 0.5 0.2 0.2", "class 0.7 is not a whole number from 0 to 99999"),
        ("30000000 0.5 0.5 0.2 0.2", "class 30000000 is not a whole number from 0 to 99999"),
        (
            "0 0.5 0.5 0.2 0.2 0.45 0.45 0 0",
            "may be a polygon, or a box with landmarks",
        ),
        ("0 0.5 0.5 0.2 0.2 0.9", "a line has 6 values; lines are"),
        (
            "0 0.5 0.5 0.2 0.2 0.45 0.45 0.55 0.45 0.5 0.5",
            "may be a polygon, or a box with landmarks",
        ),
    ],
)
def test_lines_that_may_be_something_else_are_refused(
    folder: Path, line: str, message: str
) -> None:
    (folder / "labels" / "a.txt").write_text("\n".join([line] * 5))
    with pytest.raises(DataError, match=message):
        read_all(folder / "labels", folder / "images", NAMES, BOX)


@pytest.mark.parametrize(
    "options",
    [
        {"crop": (60, 60)},
        {"crop": (61, 61), "crop_rounding": "down"},
        {"crop": (61, 61), "crop_rounding": "even"},
        {"resize": 150, "crop": (121, 121), "crop_rounding": "down"},
        {"size": (50, 100)},
        {"size": (50, 99), "letterbox": 0},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["png", "jpg", "tif"])
@pytest.mark.parametrize("orientation", [1, 6])
def test_boxes_move_as_the_pixels_do(
    tmp_path: Path, options: dict[str, Any], kind: str, orientation: int
) -> None:
    upright = np.zeros((100, 120, 3), np.uint8)
    upright[50:70, 40:80] = 255
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = Image.fromarray(np.rot90(upright) if orientation == 6 else upright)
    quality = {"quality": 100, "subsampling": 0} if kind == "jpg" else {}
    (tmp_path / "images").mkdir()
    stored.save(tmp_path / "images" / f"a.{kind}", exif=exif, **quality)
    annotations = [{"image_id": 9, "category_id": 7, "bbox": [40, 50, 40, 20]}]
    listed = [{"id": 9, "file_name": f"a.{kind}"}]
    path = tmp_path / "coco.json"
    path.write_text(json.dumps({**COCO, "images": listed, "annotations": annotations}))
    options = {"scale": 1 / 255, "interpolation": "box", **options}
    rows, columns = options.get("crop") or options["size"]
    spec = ptq.data.InputSpec("x", np.dtype(np.float32), (None, 3, rows, columns))
    samples = ptq.open_samples(tmp_path / "images", [spec], ptq.Preprocess(**options))
    assert isinstance(samples.preprocess, ptq.Preprocess)
    found = read_all(path, tmp_path / "images", samples.names, samples.preprocess)
    (sample,) = samples
    seen = np.argwhere(sample.feed["x"][0, 0] > 0.5)[:, ::-1]
    corners = [*seen.min(axis=0), *(seen.max(axis=0) + 1)]
    np.testing.assert_allclose(found.images[f"a.{kind}"].corners, [corners], atol=0.6)


@pytest.mark.parametrize("kind", ["tif", "png"])
def test_boxes_of_an_image_that_cannot_be_read_end_no_run(folder: Path, kind: str) -> None:
    images = folder / "images"
    Image.fromarray(np.full((64, 64), 70000, np.int32)).save(images / "c.tif")
    Image.effect_noise((64, 64), 50).save(images / "c.png")
    content = bytearray((images / "c.png").read_bytes())
    content[400:600] = bytes(200)
    (images / "c.png").write_bytes(content)
    for name in ("a", "c"):
        (folder / "labels" / f"{name}.txt").write_text("0 0.5 0.5 0.2 0.4\n")
    found = read_all(folder / "labels", images, ["a.png", f"c.{kind}"], BOX).images
    # a TIFF of 32 bits has a size, but no pixels
    assert [name for name, boxes in found.items() if len(boxes)] == {
        "png": ["a.png"],
        "tif": ["a.png", "c.tif"],
    }[kind]
    spec = ptq.data.InputSpec("x", np.dtype(np.float32), (None, 3, 64, 64))
    samples = ptq.open_samples(images, [spec], BOX, skip_bad=True)
    assert [sample.name for sample in samples] == ["a.png", "b.png"]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_size_of_a_tiff_is_that_of_its_upright_pixels(tmp_path: Path, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.new("RGB", (7, 4)).save(tmp_path / "a.tif", exif=exif)
    assert read_size(tmp_path / "a.tif") == decode(tmp_path / "a.tif", "RGB").size


def test_a_crop_cuts_boxes_and_leaves_out_those_outside(folder: Path) -> None:
    """Of 100 × 50 pixels the middle 50 × 50 remain."""
    boxes = [[30, 0, 10, 10], [20, 0, 10, 10], [0, 0, 10, 10], [15, 0, 12, 10]]
    annotations = [{"image_id": 9, "category_id": 7, "bbox": box} for box in boxes]
    path = folder / "coco.json"
    path.write_text(json.dumps({**COCO, "annotations": annotations}))
    found = read_all(path, folder / "images", ["a.png"], ptq.Preprocess(resize=50, crop=(50, 50)))
    boxes_found = found.images["a.png"]
    # a fourth of the last box would be enough to count
    assert boxes_found.corners.tolist() == [[5, 0, 15, 10], [0, 0, 5, 10], [0, 0, 2, 10]]
    assert boxes_found.ignored.tolist() == [False, False, True]
    assert found.notes == ("2 of 4 labelled boxes lie outside the crop and are left out of mAP",)
