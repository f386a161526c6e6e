"""Letterbox: images fitted into a size with their aspect ratio, and its record in the metadata of exporters.

Ultralytics' formula, written anew with numpy, is the oracle.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from PIL import Image

import ptq
from ptq.core.errors import UsageError
from ptq.data.formats.image_reader import ImageReader
from ptq.data.input_spec import InputSpec
from ptq.data.preprocessing.exporter_metadata import read_exporter_record, read_names
from ptq.data.splits import SampleOptions
from ptq.model.graph import Graph

YOLO = {"stride": "32", "task": "detect", "imgsz": "[64, 96]", "names": "{0: 'a'}"}
OPEN = InputSpec("x", np.dtype("f4"), (None, 3, None, None))


def fit(pixels: np.ndarray[Any, Any], rows: int, columns: int) -> np.ndarray[Any, Any]:
    """Ultralytics' LetterBox with Pillow's filter: lengths rounded, half of the border less 0.1 rounded."""
    height, width = pixels.shape[:2]
    ratio = min(rows / height, columns / width)
    new = round(width * ratio), round(height * ratio)
    top = round((rows - new[1]) / 2 - 0.1)
    left = round((columns - new[0]) / 2 - 0.1)
    made = np.full((rows, columns, 3), 114, np.uint8)
    resized = Image.fromarray(pixels).resize(new, Image.Resampling.BILINEAR)
    made[top : top + new[1], left : left + new[0]] = np.asarray(resized)
    return made.transpose(2, 0, 1) / np.float32(255)


@pytest.mark.parametrize(
    "shape", [(50, 100), (100, 50), (64, 96), (31, 97), (7, 200), (33, 33), (640, 480)]
)
def test_an_image_is_fitted_as_ultralytics_does(shape: tuple[int, int]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (*shape, 3)).astype(np.uint8)
    options = ptq.Preprocess(size=(64, 96), letterbox=114, scale=1 / 255)
    made = ImageReader(OPEN, options).read(pixels, "image")
    np.testing.assert_allclose(made[0], fit(pixels, 64, 96), atol=1e-6)


def test_a_thin_image_keeps_one_row() -> None:
    options = ptq.Preprocess(size=(64, 96), letterbox=0, scale=1.0)
    made = ImageReader(OPEN, options).read(np.full((1, 500, 3), 9, np.uint8), "image")
    assert (made[0, 0] == 9).all(axis=1).sum() == 1


def test_a_gray_image_gets_gray_borders() -> None:
    spec = InputSpec("x", np.dtype("f4"), (1, 1, 8, 8))
    reader = ImageReader(spec, ptq.Preprocess(letterbox=0, scale=1.0))
    made = reader.read(np.full((4, 8), 200, np.uint8), "image")
    assert made[0, 0, :, 0].tolist() == [0, 0, 200, 200, 200, 200, 0, 0]


def test_the_size_of_a_fixed_input_is_that_of_the_letterbox() -> None:
    spec = InputSpec("x", np.dtype("f4"), (1, 3, 32, 48))
    options = ptq.Preprocess(letterbox=114).resolved(spec)
    assert (options.size, options.letterbox) == ((32, 48), 114)
    assert "letterbox" in options.describe()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"letterbox": 300}, "letterbox 300 is not a whole number from 0 to 255"),
        (
            {"letterbox": 114, "resize": 9},
            "`letterbox` fits images into `size`; remove `resize` and `crop`",
        ),
        (
            {"letterbox": 114, "crop": (9, 9)},
            "`letterbox` fits images into `size`; remove `resize`",
        ),
    ],
)
def test_options_that_contradict_the_letterbox_are_refused(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        ptq.Preprocess(**options)


def test_a_letterbox_needs_a_size() -> None:
    with pytest.raises(UsageError, match="letterbox needs a size, because input 'x' takes any"):
        ptq.Preprocess(letterbox=114).resolved(OPEN)


def test_a_given_crop_replaces_the_letterbox() -> None:
    known = ptq.Preprocess(size=(64, 96), letterbox=114)
    changed = known.override(ptq.Preprocess(resize=64, crop=(64, 64)))
    assert (changed.size, changed.letterbox) == (None, None)
    assert known.override(ptq.Preprocess(size=(32, 32))).letterbox == 114


def test_the_metadata_of_ultralytics_say_how_images_are_prepared() -> None:
    assert read_exporter_record(YOLO) == {
        "source": "images",
        "channels": "RGB",
        "size": [64, 96],
        "letterbox": 114,
        "scale": 1 / 255,
    }
    square = {**YOLO, "imgsz": "640"}
    assert read_exporter_record(square)["size"] == [640, 640]  # type: ignore[index]


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"task": "detect", "imgsz": "[64, 64]"},  # not of Ultralytics
        {**YOLO, "task": "classify"},
        {**YOLO, "imgsz": "["},
        {**YOLO, "imgsz": "[64, 64, 3]"},
        {**YOLO, "imgsz": "[64.0, 64]"},
        {**YOLO, "imgsz": "[-1, 64]"},
        {**YOLO, "imgsz": "'ab'"},
        {**YOLO, "imgsz": "[" * 500},
    ],
)
def test_other_metadata_say_nothing(metadata: dict[str, str]) -> None:
    assert read_exporter_record(metadata) is None


def make_yolo() -> onnx.ModelProto:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> f (float[1, 3, H, W] images) => '
        "(float[1, 3, H, W] y) { y = Relu(images) }"
    )
    for key, value in YOLO.items():
        model.metadata_props.add(key=key, value=value)
    return model


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for k, shape in enumerate([(40, 90, 3), (90, 40, 3), (64, 96, 3)]):
        pixels = np.random.default_rng(k).integers(0, 256, shape).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{k}.png")
    return tmp_path


def test_images_are_prepared_as_the_exporter_says_without_any_option(photos: Path) -> None:
    graph = Graph.from_proto(make_yolo())
    opened = SampleOptions().open(photos, graph)
    feeds = [sample.feed["images"] for sample in opened]
    assert [feed.shape for feed in feeds] == [(1, 3, 64, 96)] * 3
    original = np.asarray(Image.open(photos / "0.png"))
    np.testing.assert_allclose(feeds[0][0], fit(original, 64, 96), atol=1e-6)
    applied = SampleOptions().describe(opened, graph)
    assert (applied.recorded_by, applied.difference) == ("the exporter", "")


def test_what_the_user_gives_wins_and_the_difference_is_named(photos: Path) -> None:
    graph, reading = Graph.from_proto(make_yolo()), SampleOptions(ptq.Preprocess(size=(32, 32)))
    applied = reading.describe(reading.open(photos, graph), graph)
    assert applied.difference == (
        "preprocessing differs from the exporter: size 32×32 instead of 64×96"
    )


def test_arrays_do_not_differ_from_what_the_exporter_says_of_images() -> None:
    graph, reading = Graph.from_proto(make_yolo()), SampleOptions()
    opened = reading.open({"images": np.zeros((2, 3, 64, 96), np.float32)}, graph)
    assert reading.describe(opened, graph).difference == ""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (json.dumps({str(k): f"class {k}" for k in range(12)}), [f"class {k}" for k in range(12)]),
        ("{3: 'd', 0: 'a'}", ["a", "1", "2", "d"]),
        ("{2: 'b', 1: 'a'}", ["a", "b"]),
        ("{'10': 'c', '9': 'b'}", ["b", "c"]),
        ("['a', 'b']", ["a", "b"]),
        ("{'cat': 0, 'dog': 1}", []),
        ("{-1: 'none', 0: 'a'}", []),
        ("{999999999: 'a'}", []),
        ("{}", []),
    ],
)
def test_names_of_classes_stand_at_their_numbers(text: str, names: list[str]) -> None:
    assert [*read_names({"names": text})] == names
