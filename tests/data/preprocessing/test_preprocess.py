"""What a model's input says about images, and options that contradict it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from ptq.core.errors import UsageError
from ptq.data import InputSpec, Preprocess


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
def test_the_shape_shows_layout_channels_and_size(
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
        ({"resize": 7}, (1, 3, 8, 8), "float32", "resize 7 gives images smaller than 8×8"),
        ({"mean": (1, 2, 3)}, (1, 1, 8, 8), "float32", "mean has 3 values; GRAY takes 1"),
        ({}, (1, 3, 48, None), "float32", "one side dynamic; give `size`"),
        (
            {},
            (4, 3, 8, 8),
            "float32",
            "4 images at once, because its batch is fixed; export it with a batch of 1",
        ),
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
    for given in (Preprocess(), Preprocess(mean=(0.5,))):
        for shape in ((None, 3, 8, 8), (None, None, None, 3), (28, 28, 1)):
            once = given.resolved(spec(*shape))
            again = once.resolved(spec(*shape))
            assert again == once
            assert again.assumed == once.assumed


RED_GREEN_BLUE = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # as torchvision documents them


@pytest.mark.parametrize("shape", [(1, 3, 8, 8), (8, 8, 3), (None, None, None, None)])
@pytest.mark.parametrize("channels", ["RGB", "BGR"])
def test_colours_for_which_no_values_are_given_are_normalized_as_imagenet_and_that_is_said(
    shape: tuple[int | None, ...], channels: Any
) -> None:
    found = Preprocess(channels=channels).resolved(spec(*shape))
    turn = -1 if channels == "BGR" else 1
    assert found.scale == 1 / 255
    assert (found.mean, found.std) == tuple(values[::turn] for values in RED_GREEN_BLUE)
    assert "ImageNet" in found.assumed


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ({"scale": 1.0}, (1.0, None, None)),
        ({"scale": 1 / 255}, (1 / 255, None, None)),
        ({"mean": (0.0,)}, (1 / 255, (0.0,), None)),
        ({"std": (0.5,)}, (1 / 255, None, (0.5,))),
    ],
)
def test_any_value_that_is_given_leaves_the_others_out(
    options: dict[str, Any], values: tuple[Any, ...]
) -> None:
    found = Preprocess(**options).resolved(spec(1, 3, 8, 8))
    assert (found.scale, found.mean, found.std) == values
    assert not found.assumed


@pytest.mark.parametrize(
    ("shape", "dtype", "scale", "assumed"),
    [
        ((1, 1, 8, 8), "float32", 1 / 255, "gray values of 0 … 1 are assumed"),
        ((1, 3, 8, 8), "uint8", 1.0, ""),
    ],
)
def test_gray_and_uint8_inputs_are_not_normalized_and_gray_values_are_reported_as_assumed(
    shape: tuple[int, ...], dtype: str, scale: float, assumed: str
) -> None:
    found = Preprocess().resolved(spec(*shape, dtype=dtype))
    assert (found.scale, found.mean, found.std) == (scale, None, None)
    assert found.assumed[: len(assumed) or None] == assumed


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"mean": (72.9,), "std": (90.0,)}, "mean 72.9 looks like a value for pixels of 0 … 255"),
        ({"mean": (123.675, 116.28, 103.53)}, "mean 123.675 looks"),
        ({"std": (58.4, 57.1, 57.4)}, "std 58.4 looks"),
    ],
)
def test_a_mean_or_std_of_0_to_255_beside_the_scale_of_0_to_1_is_refused(
    options: dict[str, Any], named: str
) -> None:
    with pytest.raises(UsageError, match=named):
        Preprocess(**options).resolved(spec(1, 3, 8, 8))


@pytest.mark.parametrize("options", [{"scale": 1.0}, {"scale": 1 / 255}])
def test_a_mean_of_0_to_255_beside_a_given_scale_is_kept(options: dict[str, Any]) -> None:
    given = Preprocess(mean=(127.5,), std=(127.5,), **options)
    assert given.resolved(spec(1, 3, 8, 8)).mean == (127.5,)


@pytest.mark.parametrize("options", [{"mean": (1.0,), "std": (1.0,)}, {"std": (2.0,)}])
def test_a_mean_and_std_of_0_to_1_are_not_taken_for_those_of_pixels(
    options: dict[str, Any],
) -> None:
    assert Preprocess(**options).resolved(spec(1, 3, 8, 8)).scale == 1 / 255


@pytest.mark.parametrize(("depth", "scale"), [(3, 1.0), (3, 1 / 255), (1, 1.0)])
def test_a_model_that_normalizes_by_itself_is_fed_the_values_that_it_takes(
    depth: int, scale: float
) -> None:
    wants = InputSpec("x", np.dtype(np.float32), (1, depth, 8, 8), pixel_scale=scale)
    found = Preprocess().resolved(wants)
    assert (found.scale, found.mean, found.std) == (scale, None, None)
    assert f"0 … {255 * scale:g} itself" in found.assumed
    assert Preprocess(scale=2.0).resolved(wants).scale == 2.0


def test_given_options_replace_those_of_a_configuration() -> None:
    own = Preprocess(resize=256, crop=(224, 224), scale=1 / 255, mean=(0.5,), std=(0.5,))
    assert own.override(Preprocess()) == own
    assert own.override(Preprocess(size=(8, 8), mean=(0.1,))) == Preprocess(
        size=(8, 8), scale=1 / 255, mean=(0.1,), std=(0.5,)
    )
    sized = Preprocess(size=(8, 8), channels="BGR")
    assert sized.override(Preprocess(resize=9)) == Preprocess(resize=9, channels="BGR")


@pytest.mark.parametrize("option", ["interpolation", "crop_rounding"])
def test_an_unknown_filter_or_rounding_lists_the_known_ones(option: str) -> None:
    with pytest.raises(
        UsageError, match=f"{option} 'cubic' is unknown; choose one of (nearest|even)"
    ):
        Preprocess(**{option: "cubic"})  # type: ignore[arg-type] # the error is the test


def test_arrays_without_axes_are_numbers_and_no_sizes() -> None:
    found = Preprocess(mean=np.array(0.5), std=np.array(2), scale=np.array(0.25))
    assert found == Preprocess(mean=(0.5,), std=(2.0,), scale=0.25)
    for option in ("size", "crop"):
        with pytest.raises(UsageError, match=rf"{option} array\(5\) is not a height and a width"):
            Preprocess(**{option: np.array(5)})
    with pytest.raises(UsageError, match="is not a finite number"):
        Preprocess(mean=np.array("0.5"))
