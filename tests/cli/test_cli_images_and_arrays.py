"""Options and records apply to images and to arrays of uint8 pixels alike; arrays of floats are fed as given.

The oracle is a classifier that gets many images wrong under any other preprocessing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from brightness import MEAN, OPTIONS, STD, brightness_model, write_brightness_images
from command_line import FAST, call, next_command, records, report, say, top1
from numpy.typing import NDArray
from PIL import Image

from ptq.model.metadata import PREPROCESS, PROVENANCE

USAGE = 2
passes = 0


def prepare(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """What OPTIONS make of pixels."""
    scaled = (pixels.astype(np.float32) / 255 - MEAN) / STD
    return scaled.transpose(0, 3, 1, 2).astype(np.float32)


def feeds() -> Iterator[Any]:
    """The same pixels from a callable, which counts its runs."""
    global passes
    passes += 1
    with np.load("uint8.npz") as arrays:
        yield from zip(arrays["x"], arrays["labels"].tolist(), strict=True)


def float_feeds() -> Iterator[Any]:
    with np.load("float.npz") as arrays:
        yield from zip(arrays["x"], arrays["labels"].tolist(), strict=True)


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A current folder with a float model, and the same images as files, pixels and prepared arrays."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("kinds")
        patch.chdir(folder)
        patch.setenv("COLUMNS", "200")
        onnx.save(brightness_model(), "model.onnx")
        paths = sorted(write_brightness_images(folder / "images").rglob("*.png"))
        pixels = np.stack([np.asarray(Image.open(path)) for path in paths])
        labels = np.array([int(path.parent.name[0]) for path in paths])
        np.savez("uint8.npz", x=pixels, labels=labels)
        np.savez("nchw.npz", x=pixels.transpose(0, 3, 1, 2), labels=labels)
        np.savez("float.npz", x=prepare(pixels), labels=labels)
        yield folder


KINDS = ("uint8.npz", "nchw.npz", f"{__name__}:feeds")


@pytest.mark.parametrize("data", KINDS)
@pytest.mark.parametrize("metadata", [True, False], ids=["recorded", "unrecorded"])
def test_d1_the_next_command_on_pixels_runs_as_printed(data: str, metadata: bool):
    more = [] if metadata else ["--no-metadata"]
    printed = say("quantize", "model.onnx", "--data", data, *OPTIONS, *FAST, *more, "-o", "q.onnx")
    verb, *arguments = next_command(printed)
    assert verb == "verify"
    assert ("--mean=0.2" in arguments) != metadata
    assert "− (0.2), ÷ (0.25)" in say(verb, *arguments)
    assert top1(report("evaluate", *arguments)) == 1


def test_d1_the_record_of_a_model_applies_to_pixels_and_leaves_floats_as_they_are():
    say("quantize", "model.onnx", "--data", "images", *OPTIONS, *FAST, "-o", "images.onnx")
    assert records("images.onnx")[PREPROCESS]["mean"] == [0.2]
    for data in ("images", *KINDS):
        document = report("evaluate", "images.onnx", "--data", data)
        assert top1(document) == 1
        assert document["applied_preprocess"]["difference"] == ""
    for data in ("float.npz", f"{__name__}:float_feeds"):
        document = report("evaluate", "images.onnx", "--data", data)
        assert top1(document) == 1
        difference = document["applied_preprocess"]["difference"]
        assert difference == (
            "preprocessing differs from the model: arrays, fed as given, instead of images"
        )


def test_d8_pixels_without_options_are_refused_with_what_prepares_them():
    for data in ("uint8.npz", "nchw.npz"):
        code, printed = call("quantize", "model.onnx", "--data", data)
        assert code == 1
        assert "give preprocessing options (--scale, --mean, --std) that prepare them" in printed
        assert "transpose" not in printed


def test_verify_reads_a_callable_once():
    global passes
    say("quantize", "model.onnx", "--data", "uint8.npz", *OPTIONS, *FAST, "-o", "once.onnx")
    passes = 0
    say("verify", "once.onnx", "--data", f"{__name__}:feeds")
    assert passes == 1


@pytest.mark.parametrize("floats", ["float.npz", f"{__name__}:float_feeds"])
def test_d6_options_apply_to_the_images_and_prepared_arrays_are_fed_as_given(floats: str):
    for data, evaluation in (("images", floats), (floats, "images"), (floats, "uint8.npz")):
        given = ["quantize", "model.onnx", "--data", data, "--eval", evaluation, *OPTIONS, *FAST]
        printed = say(*given, "-o", "mixed.onnx")
        images = "images: RGB, resized to 8×8, bilinear, × 1/255, − (0.2), ÷ (0.25), NCHW"
        arrays = "arrays, fed as given"
        first, second = (arrays, images) if data == floats else (images, arrays)
        assert f"  calibration: {first}\n  evaluation: {second}\n" in printed
        verb, *arguments = next_command(printed)
        assert "are equal" in say(verb, *arguments)
        assert top1(report("evaluate", *arguments)) == 1
        document = report(*given, "-o", "mixed.onnx")
        assert top1(document) == 1
        source = "images" if data == floats else "feeds"
        assert document["evaluation_preprocessing"]["source"] == source
        drop = records("mixed.onnx")[PROVENANCE]["drop"]
        assert drop["preprocess"] == document["evaluation_preprocessing"]


def test_d6_images_and_pixels_are_prepared_alike():
    given = ["quantize", "model.onnx", *OPTIONS, *FAST]
    one = report(*given, "--data", "images", "--eval", "uint8.npz", "-o", "one.onnx")
    other = report(*given, "--data", "uint8.npz", "--eval", "images", "-o", "other.onnx")
    assert one["evaluation_preprocessing"] is other["evaluation_preprocessing"] is None
    assert one["evaluated_on"] == other["evaluated_on"] == "on calibration samples"
    assert Path("one.onnx").read_bytes() == Path("other.onnx").read_bytes()


def test_d6_options_that_apply_to_nothing_are_refused():
    given = ["quantize", "model.onnx", *OPTIONS, "--data", "float.npz"]
    for more in ([], ["--eval", "float.npz"], ["--eval", f"{__name__}:float_feeds"]):
        code, printed = call(*given, *more)
        assert code == USAGE
        assert "preprocessing options apply only to images" in printed


def test_d4_both_preprocessings_are_shown_and_the_drop_names_its_own():
    say("calibrate", "model.onnx", "--data", "images", *OPTIONS, "--threads", 1, "-o", "s.npz")
    given = ["quantize", "model.onnx", "--stats", "s.npz", "--eval", "images", *FAST]
    given += ["-o", "s.onnx"]
    printed = say(*given, "--mean", 0.5)
    images = "images: RGB, resized to 8×8, bilinear, × 1/255"
    assert f"  calibration: {images}, − (0.2), ÷ (0.25), NCHW\n" in printed
    assert f"  evaluation: {images}, − (0.5), ÷ (0.25), NCHW\n" in printed
    made = records("s.onnx")
    assert made[PREPROCESS]["mean"] == [0.2]
    assert made[PROVENANCE]["drop"]["preprocess"] == made[PREPROCESS] | {"mean": [0.5]}
    document = report(*given, "--mean", 0.5)
    assert document["evaluation_preprocessing"]["mean"] == [0.5]
    alike = report(*given)
    assert alike["evaluation_preprocessing"] is None
    assert "preprocess" not in records("s.onnx")[PROVENANCE]["drop"]
