"""Source positions of resized arrays. Oracles: ONNX Runtime live, and linear interpolation in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from ptq.kernels.resize import (
    LITERT_SAMPLINGS,
    LitertSampling,
    OnnxSampling,
    ResizeAxis,
    compute_litert_nearest_positions,
    compute_source_positions,
    find_litert_sampling,
    interpolate_like_litert,
    resample_nearest,
)
from ptq.model.axes import resize_unsupported_reason
from ptq.model.machine.ort_version import INSTALLED

COORDINATES = ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"]
TIE_TOLERANCE = {} if INSTALLED >= (1, 27) else {"tie_tolerance": 0.0}
ROUNDINGS = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]


def onnxruntime_nearest(x: Any, how: OnnxSampling, **given: Any) -> Any:
    """Resize of the last two axes by ``scales`` or to ``sizes``."""
    operands = {name: np.asarray(value) for name, value in given.items()}
    names = ["x", "", "scales" if "scales" in given else "", "sizes" if "sizes" in given else ""]
    node = helper.make_node(
        "Resize",
        names,
        ["y"],
        mode="nearest",
        coordinate_transformation_mode=how.coordinate_mode,
        nearest_mode=how.nearest_mode,
    )
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.INT32, x.shape)],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(value, name) for name, value in operands.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"x": x})[0]


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("coordinates", COORDINATES)
def test_nearest_neighbours_are_onnx_runtimes(coordinates: str, rounding: str) -> None:
    how = OnnxSampling(coordinates, rounding, **TIE_TOLERANCE)
    # 30 to 8 and 28 to 38 meet half-way positions that float32 misses by a last bit
    for before, after in [((5, 30), (5, 8)), ((4, 28), (9, 38)), ((7, 6), (1, 13))]:
        x = np.arange(before[0] * before[1], dtype=np.int32).reshape(1, 1, *before)
        axes = [ResizeAxis(1, 1, 1.0), ResizeAxis(1, 1, 1.0)]
        axes += [
            ResizeAxis(n, m, float(np.float32(m) / np.float32(n)))
            for n, m in zip(before, after, strict=True)
        ]
        expected = onnxruntime_nearest(x, how, sizes=[1, 1, *after])
        np.testing.assert_array_equal(resample_nearest(x, axes, how), expected)


@pytest.mark.parametrize("factors", [(2.0, 3.0), (1.1, 1.1), (0.3, 2.7)])
def test_a_factor_that_is_no_quotient_of_lengths_is_onnx_runtimes(
    factors: tuple[float, float],
) -> None:
    x = np.arange(30, dtype=np.int32).reshape(1, 1, 6, 5)
    scales = np.float32([1, 1, *factors])
    lengths = [int(np.float32(n) * s) for n, s in zip(x.shape, scales, strict=True)]
    axes = [ResizeAxis(n, m, float(s)) for n, m, s in zip(x.shape, lengths, scales, strict=True)]
    for rounding in ROUNDINGS:
        how = OnnxSampling("half_pixel", rounding, **TIE_TOLERANCE)
        expected = onnxruntime_nearest(x, how, scales=scales)
        np.testing.assert_array_equal(resample_nearest(x, axes, how), expected)


@pytest.mark.parametrize(
    ("coordinates", "rounding", "corners"),
    [
        ("asymmetric", "floor", LitertSampling(False, False)),
        ("half_pixel", "round_prefer_ceil", LitertSampling(False, True)),
        ("align_corners", "round_prefer_ceil", LitertSampling(True, False)),
        ("asymmetric", None, LitertSampling(False, False)),
        ("half_pixel", None, LitertSampling(False, True)),
        ("pytorch_half_pixel", None, LitertSampling(False, True)),
        ("align_corners", None, LitertSampling(True, False)),
        ("asymmetric", "ceil", None),
    ],
)
def test_litert_has_three_systems_of_coordinates(
    coordinates: str, rounding: str | None, corners: LitertSampling | None
) -> None:
    axes = [
        ResizeAxis(7, 12, float(np.float32(12 / 7))),
        ResizeAxis(9, 5, float(np.float32(5 / 9))),
    ]
    assert find_litert_sampling(OnnxSampling(coordinates, rounding), axes) == corners


def test_the_nearest_pixels_of_litert_are_those_that_it_was_chosen_for() -> None:
    for size in range(1, 20):
        axis = ResizeAxis(size, 2 * size, 2.0)
        how = OnnxSampling("half_pixel", "round_prefer_floor")  # ONNX's defaults
        corners = find_litert_sampling(how, [axis])
        assert corners is not None
        expected = resample_nearest(np.arange(size), [axis], how)
        np.testing.assert_array_equal(compute_litert_nearest_positions(axis, corners), expected)


def test_a_factor_that_is_rounded_is_not_litert_s() -> None:
    assert find_litert_sampling(OnnxSampling("asymmetric", None), [ResizeAxis(5, 13, 2.7)]) is None


@pytest.mark.parametrize("corners", LITERT_SAMPLINGS)
def test_bilinear_interpolation_is_the_real_one_to_the_nearest(corners: LitertSampling) -> None:
    x = np.random.default_rng(0).integers(-128, 128, (2, 5, 7, 3)).astype(np.int8)
    height, width = ResizeAxis(5, 12, 12 / 5), ResizeAxis(7, 4, 4 / 7)
    said = {
        (False, False): "asymmetric",
        (False, True): "half_pixel",
        (True, False): "align_corners",
    }
    mode = said[corners.align_corners, corners.half_pixel_centers]
    real = x.astype(np.float64)
    for number, axis in ((1, height), (2, width)):
        at = np.clip(compute_source_positions(mode, axis), 0, axis.size - 1).astype(np.float64)
        low = np.floor(at).astype(int)
        high = np.minimum(low + 1, axis.size - 1)
        share = (at - low).reshape([-1 if n == number else 1 for n in range(4)])
        real = real.take(low, number) * (1 - share) + real.take(high, number) * share
    ours = interpolate_like_litert(x, height, width, corners)
    # a position in 1/1024 of a pixel may be off by one for each pixel before it, of up to 255 steps
    assert np.abs(ours - real).max() <= 0.5 + 2 * 12 * 255 / 1024


@pytest.mark.parametrize(
    ("attrs", "what"),
    [
        ({"antialias": 1}, "antialias"),
        ({"keep_aspect_ratio_policy": "not_larger"}, "aspect"),
        ({"coordinate_transformation_mode": "tf_crop_and_resize"}, "tf_crop_and_resize"),
    ],
)
def test_an_unsupported_resize_is_named(attrs: dict[str, Any], what: str) -> None:
    assert what in resize_unsupported_reason(attrs)
    assert not resize_unsupported_reason({})
