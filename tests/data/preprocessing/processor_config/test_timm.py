"""Options from timm's ``pretrained_cfg``, against timm's documented rules."""

from __future__ import annotations

from typing import Any

import pytest

from ptq.core.errors import UsageError
from ptq.data import Preprocess

EFFICIENTNET = {
    "url": "https://example.org/weights.pth",
    "num_classes": 1000,
    "input_size": [3, 260, 260],
    "pool_size": [9, 9],
    "crop_pct": 0.89,
    "interpolation": "bicubic",
    "mean": [0.485, 0.456, 0.406],
    "std": [0.229, 0.224, 0.225],
    "first_conv": "conv_stem",
    "classifier": "classifier",
}


def test_the_shorter_side_is_the_input_divided_by_crop_pct_rounded_down() -> None:
    assert Preprocess.from_config(
        {"architecture": "x", "pretrained_cfg": EFFICIENTNET}
    ) == Preprocess(
        resize=292,  # 260 / 0.89 = 292.1
        crop=(260, 260),
        scale=1 / 255,
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
        channels="RGB",
        interpolation="bicubic",
    )


def test_a_squashed_image_has_exactly_the_size() -> None:
    found = Preprocess.from_config(
        {"input_size": (3, 192, 256), "crop_pct": 1.0, "crop_mode": "squash"}
    )
    assert (found.size, found.resize, found.crop) == ((192, 256), None, None)


def test_absent_keys_have_the_defaults_of_timm() -> None:
    found = Preprocess.from_config({"input_size": (1, 224, 224), "mean": (0.5,), "std": (0.5,)})
    assert (found.resize, found.crop) == (256, (224, 224))  # crop_pct 0.875
    assert (found.interpolation, found.channels) == ("bicubic", "GRAY")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"crop_mode": "border"}, "crop_mode = 'border'"),
        ({"crop_mode": "squash"}, "crop_mode = 'squash' with crop_pct 0.89"),
        ({"input_size": [3, 224, 192]}, "input_size = .* is not square"),
        ({"input_size": [4, 224, 224]}, "input_size = .* is not channels"),
        ({"interpolation": "random"}, "interpolation = 'random'"),
        ({"crop_border_pixels": 4}, "crop_border_pixels = 4 may change pixels"),
        ({"naflex": True}, "naflex = True may change pixels"),
        ({"crop_pct": 1.1}, "crop_pct = 1.1 is greater than 1"),
    ],
)
def test_what_would_change_pixels_otherwise_is_refused_by_name(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        Preprocess.from_config({**EFFICIENTNET, **change})
