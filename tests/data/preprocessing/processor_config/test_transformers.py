"""Options from ``preprocessor_config.json``, against the image processors of transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ptq.core.errors import UsageError
from ptq.data import InputSpec, Preprocess, open_samples

NORMALIZED = {
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.48, 0.46, 0.41],
    "image_std": [0.27, 0.26, 0.28],
}
VIT = {
    "image_processor_type": "ViTImageProcessor",
    "do_resize": True,
    "size": {"height": 24, "width": 20},
    "resample": 2,
    **NORMALIZED,
}
CLIP = {
    "image_processor_type": "CLIPImageProcessor",
    "do_resize": True,
    "size": {"shortest_edge": 23},
    "resample": 3,
    "do_center_crop": True,
    "crop_size": {"height": 16, "width": 20},
    "do_convert_rgb": True,
    **NORMALIZED,
}


def test_exact_size_rescaling_and_normalization_are_taken() -> None:
    assert Preprocess.from_config(VIT) == Preprocess(
        size=(24, 20),
        interpolation="bilinear",
        scale=1 / 255,
        mean=(0.48, 0.46, 0.41),
        std=(0.27, 0.26, 0.28),
    )


def test_shortest_edge_and_center_crop_are_taken() -> None:
    found = Preprocess.from_config(CLIP)
    assert (found.resize, found.crop, found.size) == (23, (16, 20), None)
    assert (found.interpolation, found.crop_rounding) == ("bicubic", "down")


def test_steps_that_are_off_are_left_out() -> None:
    found = Preprocess.from_config(
        {**CLIP, "do_resize": False, "do_center_crop": None, "do_rescale": False}
        | {"do_normalize": False}
    )
    assert found == Preprocess(scale=1, mean=(0,), std=(1,))


def test_flipped_channels_are_bgr() -> None:
    config = {**CLIP, "image_processor_type": "MobileViTImageProcessor"}
    assert Preprocess.from_config({**config, "do_flip_channel_order": True}).channels == "BGR"
    assert Preprocess.from_config({**config, "do_flip_channel_order": False}).channels is None


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("ViTFeatureExtractor", Preprocess(size=(32, 32))),
        ("DeiTFeatureExtractor", Preprocess(size=(32, 32))),
        ("CLIPFeatureExtractor", Preprocess(resize=32)),
    ],
)
def test_a_size_of_one_number_is_as_its_processor_reads_it(kind: str, expected: Preprocess) -> None:
    off = {"do_center_crop": False, "do_normalize": False}
    config = {"feature_extractor_type": kind, "size": 32, "resample": 2, **off}
    found = Preprocess.from_config(config)
    assert (found.size, found.resize) == (expected.size, expected.resize)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"do_pad": True}, "do_pad = True may change pixels"),
        ({"do_thumbnail": True}, "do_thumbnail = True may change pixels"),
        ({"keep_aspect_ratio": True}, "keep_aspect_ratio = True may change pixels"),
        ({"rescale_offset": True}, "rescale_offset = True may change pixels"),
        ({"resample": 7}, "resample = 7 is not one of Pillow's filters"),
        ({"resample": None}, "resample = None is missing"),
        (
            {"size": {"longest_edge": 9}},
            "size = .* is not a shortest_edge, or a height and a width",
        ),
        ({"image_std": None}, "image_std = None is missing"),
        ({"do_rescale": "yes"}, "do_rescale = 'yes' is not true or false"),
        ({"rescale_factor": 0}, "rescale_factor = 0 is not a finite number greater than 0"),
        ({"image_processor_type": "LevitImageProcessor"}, "has steps of its own"),
        ({"image_processor_type": "EfficientNetImageProcessor"}, "has steps of its own"),
        ({"image_processor_type": "DetrImageProcessor"}, "has steps of its own"),
        ({"crop_size": 9, "do_center_crop": True}, "crop_size = 9 follows a resize"),
        ({"image_processor_type": None, "size": 224}, "size = 224 is not|size = 224 is ambiguous"),
    ],
)
def test_what_would_change_pixels_otherwise_is_refused_by_name(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=f"^the processor configuration: .*{message}"):
        Preprocess.from_config({**VIT, **change})


@pytest.mark.parametrize(
    ("config", "left_out", "missing"),
    [
        (VIT, ("do_normalize", "image_mean"), "do_normalize is missing, and so is image_mean"),
        (VIT, ("do_resize", "size"), "do_resize is missing, and so is size"),
        (CLIP, ("do_center_crop", "crop_size"), "do_center_crop is missing, and so is crop_size"),
        (
            {**CLIP, "image_processor_type": "MobileViTImageProcessor"},
            (),
            "do_flip_channel_order is missing; write it",
        ),
    ],
)
def test_a_step_that_the_class_would_choose_is_refused(
    config: dict[str, Any], left_out: tuple[str, ...], missing: str
) -> None:
    with pytest.raises(UsageError, match=missing):
        Preprocess.from_config({k: v for k, v in config.items() if k not in left_out})
    if left_out:
        flag, value = left_out
        assert Preprocess.from_config({**config, flag: False, value: None})
        Preprocess.from_config({k: v for k, v in config.items() if k != flag})


def test_keys_that_are_false_or_without_effect_are_accepted() -> None:
    harmless = {"do_pad": False, "pad_size": None, "processor_class": "X", "do_reduce_labels": True}
    assert Preprocess.from_config({**VIT, **harmless}) == Preprocess.from_config(VIT)


def _processors() -> list[tuple[str, dict[str, Any]]]:
    edges = {"shortest_edge": 29}
    return [
        ("ViTImageProcessorPil", {"size": {"height": 24, "width": 20}}),
        ("ViTImageProcessorPil", {"size": {"height": 70, "width": 90}, "resample": 3}),
        ("CLIPImageProcessorPil", {"size": edges, "crop_size": {"height": 26, "width": 22}}),
        ("SiglipImageProcessorPil", {"size": {"height": 24, "width": 24}}),
        ("DeiTImageProcessorPil", {"size": {"height": 20, "width": 24}}),
        ("ConvNextImageProcessorPil", {"size": {"shortest_edge": 21}}),
        ("ConvNextImageProcessorPil", {"size": {"shortest_edge": 384}}),
        ("BitImageProcessorPil", {"size": edges, "crop_size": {"height": 25, "width": 29}}),
        ("MobileNetV2ImageProcessorPil", {"size": edges, "crop_size": {"height": 22, "width": 22}}),
        *(("BitImageProcessorPil", {"size": edges, "resample": code}) for code in range(6)),
    ]


@pytest.mark.parametrize(("name", "options"), _processors())
@pytest.mark.parametrize("image_size", [(64, 45), (31, 52)])
def test_pixels_are_those_of_the_processor_of_transformers_bit_for_bit(
    name: str, options: dict[str, Any], image_size: tuple[int, int], tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    path = tmp_path / "images" / "a.png"
    path.parent.mkdir()
    pixels = np.random.default_rng(7).integers(0, 256, (image_size[1], image_size[0], 3), np.uint8)
    Image.fromarray(pixels).save(path)
    crops = {} if "crop_size" in options else {"do_center_crop": False}
    for steps in ({"do_rescale": False, "do_normalize": False}, {}):
        processor = getattr(transformers, name)(**options, **crops, **steps)
        processor.save_pretrained(tmp_path)
        with Image.open(path) as image:
            expected = processor(image)["pixel_values"][0]
        spec = InputSpec("x", np.dtype(np.float32), (None, 3, None, None))
        preprocess = Preprocess.from_config(tmp_path / "preprocessor_config.json")
        (sample,) = open_samples(path.parent, [spec], preprocess)
        if steps:
            np.testing.assert_array_equal(sample.feed["x"][0], expected)
        else:  # transformers rounds to float32 after each step, ptq once
            np.testing.assert_allclose(sample.feed["x"][0], expected, rtol=1e-6, atol=1e-6)
        assert Preprocess.from_config(processor) == preprocess
