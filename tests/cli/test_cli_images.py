"""Image options on the command line: interpolation, and the configuration of an image processor."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

CONFIG = {
    "image_processor_type": "ViTImageProcessor",
    "do_resize": True,
    "size": {"height": 8, "width": 8},
    "resample": 3,
    "do_rescale": True,
    "do_normalize": True,
    "image_mean": [0.1, 0.2, 0.3],
    "image_std": [0.4, 0.5, 0.6],
}


@pytest.fixture
def photos(folder):
    place = folder / "given" / "photos"
    place.mkdir()
    for k in range(2):
        pixels = np.random.default_rng(k).integers(0, 256, (20, 30, 3), np.uint8)
        Image.fromarray(pixels).save(place / f"{k}.png")
    (folder / "given" / "preprocessor_config.json").write_text(json.dumps(CONFIG))
    return place


def applied(ptq, model, *options):
    result = ptq("evaluate", model, "--json", "-", *options)
    assert result.code == 0, result.err
    return json.loads(result.out)["preprocessing"]


def test_the_configuration_of_a_processor_gives_the_options(ptq, model, photos):
    config = photos.parent / "preprocessor_config.json"
    assert applied(ptq, model, "--data", photos, "--preprocess", config) == {
        "channels": "RGB",
        "size": [8, 8],
        "interpolation": "bicubic",
        "scale": 1 / 255,
        "mean": [0.1, 0.2, 0.3],
        "std": [0.4, 0.5, 0.6],
        "layout": "NCHW",
    }


def test_an_option_that_is_given_too_replaces_that_of_the_configuration(ptq, model, photos):
    config = photos.parent / "preprocessor_config.json"
    changes = ["--interpolation", "lanczos", "--resize", 9, "--mean", 0]
    found = applied(ptq, model, "--data", photos, "--preprocess", config, *changes)
    assert (found["resize"], found["crop"], found["mean"]) == (9, [8, 8], [0])
    assert (found["interpolation"], found["std"]) == ("lanczos", [0.4, 0.5, 0.6])


def test_a_configuration_with_an_unknown_step_is_one_line(ptq, model, photos):
    config = photos.parent / "preprocessor_config.json"
    config.write_text(json.dumps({**CONFIG, "do_pad": True}))
    result = ptq("evaluate", model, "--data", photos, "--preprocess", config)
    assert result.code == 2
    assert "do_pad = True may change pixels" in result.line
    result = ptq("evaluate", model, "--data", photos, "--interpolation", "cubic")
    assert result.code == 2
    assert "choose one of nearest, bilinear, bicubic, lanczos, box, hamming" in result.line
