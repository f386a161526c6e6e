"""What a model's input says about images, and options that contradict it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from ptq.data import InputSpec, Preprocess
from ptq.errors import UsageError


def spec(*shape: int | None, dtype: str = "float32") -> InputSpec:
    return InputSpec("x", np.dtype(dtype), shape)


@pytest.mark.parametrize(
    ("shape", "layout", "channels", "size"),
    [
        ((None, 3, 224, 200), "NCHW", "RGB", (224, 200)),
        ((1, 224, 200, 3), "NHWC", "RGB", (224, 200)),
        ((None, 28, 28, 1), "NHWC", "GRAY", (28, 28)),
        ((None, 1, 28, 28), "NCHW", "GRAY", (28, 28)),
        ((1, 3, 8, 3), "NCHW", "RGB", (8, 3)),
        ((None, None, None, None), "NCHW", "RGB", None),
        ((None, None, None, 3), "NHWC", "RGB", None),
        ((3, 9, 7), "NCHW", "RGB", (9, 7)),
        ((9, 7, 3), "NHWC", "RGB", (9, 7)),
        ((None, 28, 28), "NCHW", "GRAY", (28, 28)),
    ],
)
def test_the_shape_tells_layout_channels_and_size(
    shape: tuple[int | None, ...], layout: str, channels: str, size: tuple[int, int] | None
) -> None:
    found = Preprocess().resolved(spec(*shape))
    assert (found.layout, found.channels, found.size) == (layout, channels, size)


@pytest.mark.parametrize(
    ("options", "shape", "dtype", "message"),
    [
        ({"channels": "GRAY"}, (1, 3, 8, 8), "float32", "GRAY images have 1"),
        ({"layout": "NHWC"}, (1, 3, 8, 8), "float32", "8 channels in layout NHWC"),
        ({"size": (9, 8)}, (1, 3, 8, 8), "float32", "size 9,8 does not fit"),
        ({"crop": (9, 8)}, (1, 3, 8, 8), "float32", "crop 9,8 does not fit"),
        ({"resize": 7}, (1, 3, 8, 8), "float32", "resize 7 leaves less than the 8×8"),
        ({"mean": (1, 2, 3)}, (1, 1, 8, 8), "float32", "mean has 3 values; GRAY takes 1"),
        ({}, (1, 3, 48, None), "float32", "one side dynamic; give size"),
        ({}, (4, 3, 8, 8), "float32", "4 images at once"),
        ({}, (1, 4, 8, 8), "float32", "4 channels"),
        ({}, (1, 10), "float32", "images feed 3 or 4 dimensions"),
        ({}, (1, 3, 8, 8), "int64", "images feed float or uint8"),
    ],
)
def test_what_cannot_be_resolved_is_said(
    options: dict[str, Any], shape: tuple[int | None, ...], dtype: str, message: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        Preprocess(**options).resolved(spec(*shape, dtype=dtype))


@pytest.mark.parametrize(
    "options",
    [
        {"size": (0, 4)},
        {"size": (4, 4), "resize": 4},
        {"size": (4, 4), "crop": (4, 4)},
        {"resize": 0},
        {"crop": (4,)},
        {"std": (0.0,)},
        {"std": (1.0, 1.0)},
        {"mean": (float("nan"),)},
        {"scale": 0.0},
        {"scale": float("inf")},
        {"layout": "HWC"},
        {"channels": "rgb"},
    ],
)
def test_options_without_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        Preprocess(**options)


def test_resolving_twice_changes_nothing() -> None:
    for shape in ((None, 3, 8, 8), (None, None, None, 3), (28, 28, 1)):
        once = Preprocess(mean=(0.5,)).resolved(spec(*shape))
        assert once.resolved(spec(*shape)) == once
