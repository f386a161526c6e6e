"""Oracles: ONNX Runtime's MaxPool on integers, its float AveragePool, and its QLinearAveragePool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import helper

from ptq.core.errors import ModelError
from ptq.kernels.pool import compute_max_pool, compute_sequential_window_sums, compute_window_sums
from ptq.kernels.window import WindowAxis, build_window_axes
from ptq.model.machine.ort_version import INSTALLED

CEIL_MODES = range(1 + (INSTALLED >= (1, 26)))
"""Before ONNX Runtime 1.21 a last window may begin in the padding; before 1.26 it counts what lies beyond it."""


def runtime(op: str, inputs: dict[str, Any], domain: str = "", **attributes: Any) -> Any:
    """What ONNX Runtime makes of one pool; channels last on both sides."""
    kinds = [helper.np_dtype_to_tensor_dtype(v.dtype) for v in inputs.values()]
    values = [
        helper.make_tensor_value_info(name, kind, v.shape)
        for (name, v), kind in zip(inputs.items(), kinds, strict=True)
    ]
    result = helper.make_tensor_value_info("y", kinds[0], None)
    node = helper.make_node(op, list(inputs), ["y"], domain=domain, **attributes)
    graph = helper.make_graph([node], "one", values, [result])
    opset = 22 if INSTALLED >= (1, 21) else 21  # in which pools take no bfloat16
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.moveaxis(session.run(None, inputs)[0], 1, -1)


def axes_of(
    x: np.ndarray[Any, Any], kernel_shape: Sequence[int], **attributes: Any
) -> tuple[WindowAxis, ...]:
    """The windows of a pool of channels-last x, by its ONNX attributes."""
    return build_window_axes(x.shape[1:-1], kernel_shape, **attributes)


@st.composite
def pools(draw: Any, dilated: bool = True) -> tuple[list[int], dict[str, Any], int]:
    rank = draw(st.sampled_from([1, 2, 3]))

    def numbers(lo: int, hi: int) -> list[int]:
        return draw(st.lists(st.integers(lo, hi), min_size=rank, max_size=rank))

    kernel, dilations = numbers(1, 4), numbers(1, 2) if dilated else [1] * rank
    auto_pad = draw(st.sampled_from(["NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]))
    if auto_pad.startswith("SAME"):
        dilations = [1] * rank
    attributes: dict[str, Any] = {
        "kernel_shape": kernel,
        # Beyond kernel + 1, SAME would ask for a negative padding, which is left at zero here.
        "strides": [min(s, k + 1) for s, k in zip(numbers(1, 4), kernel, strict=True)],
        "auto_pad": auto_pad,
        "ceil_mode": draw(st.sampled_from(CEIL_MODES)),
    }
    if dilated:
        attributes["dilations"] = dilations
    if auto_pad == "NOTSET":
        ends = [draw(st.integers(0, k - 1)) for k in kernel * 2]
        attributes["pads"] = ends
    sizes = [(k - 1) * d + n for k, d, n in zip(kernel, dilations, numbers(1, 8), strict=True)]
    return sizes, attributes, draw(st.integers(0, 2**32 - 1))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_max_pool_equals_onnx_runtimes(dtype: type) -> None:
    @settings(max_examples=60)
    @given(pools())
    def check(case: tuple[list[int], dict[str, Any], int]) -> None:
        sizes, attributes, seed = case
        info = np.iinfo(dtype)
        x = np.random.default_rng(seed).integers(
            info.min, info.max, (2, *sizes, 3), dtype, endpoint=True
        )
        expected = runtime("MaxPool", {"x": np.moveaxis(x, -1, 1)}, **attributes)
        got = compute_max_pool(x, axes_of(x, **attributes))
        assert got.dtype == x.dtype
        np.testing.assert_array_equal(got, expected)

    check()


def test_padding_does_not_win_over_the_least_integer() -> None:
    x = np.full((1, 3, 3, 1), -128, np.int8)
    got = compute_max_pool(x, axes_of(x, kernel_shape=[3, 3], pads=[1, 1, 1, 1]))
    np.testing.assert_array_equal(got, x)


@settings(max_examples=80)
@given(pools(), st.integers(0, 1))
def test_sums_over_counts_equal_onnx_runtimes_float_average(
    case: tuple[list[int], dict[str, Any], int], include: int
) -> None:
    sizes, attributes, seed = case
    x = np.random.default_rng(seed).integers(0, 256, (2, *sizes, 3), np.uint8)
    real = np.moveaxis(x, -1, 1).astype(np.float32)
    expected = runtime("AveragePool", {"x": real}, count_include_pad=include, **attributes)
    sums, counts = compute_window_sums(x, axes_of(x, **attributes), count_include_pad=bool(include))
    assert (sums.dtype, counts.dtype) == (np.int32, np.int32)
    np.testing.assert_allclose(sums / counts, expected, rtol=1e-6)


@settings(max_examples=80)
@given(pools(dilated=False), st.integers(0, 1))
def test_sequential_sums_equal_onnx_runtimes_qlinearaveragepool(
    case: tuple[list[int], dict[str, Any], int], include: int
) -> None:
    sizes, attributes, seed = case
    # a window that is the whole image is a global pool, which adds the zero point after rounding
    assume(sizes != attributes["kernel_shape"])
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 256, (1, *sizes, 2), np.uint8)
    scale, to = np.float32(0.0173), np.float32(0.0091)
    inputs = {
        "x": np.moveaxis(x, -1, 1), "sx": np.array(scale), "zx": np.array(31, np.uint8),
        "sy": np.array(to), "zy": np.array(17, np.uint8),
    }  # fmt: skip
    expected = runtime(
        "QLinearAveragePool", inputs, "com.microsoft", count_include_pad=include, **attributes
    )
    values = (x.astype(np.int32) - 31).astype(np.float32) * scale
    sums, counts = compute_sequential_window_sums(
        values, axes_of(values, **attributes), count_include_pad=bool(include)
    )
    assert sums.dtype == np.float32
    average = sums / counts.astype(np.float32)
    got = np.clip(np.rint(average / to + np.float32(17)), 0, 255)
    np.testing.assert_array_equal(got, expected)


def test_float_sums_follow_the_row_major_order_of_the_window() -> None:
    values = np.array([2.0**24, 1.0, 1.0, 1.0], np.float32).reshape(1, 2, 2, 1)
    axes = axes_of(values, kernel_shape=[2, 2])
    forward, _ = compute_sequential_window_sums(values, axes)
    backward, _ = compute_sequential_window_sums(np.ascontiguousarray(values[:, ::-1, ::-1]), axes)
    # 2^24 + 1 rounds to 2^24 three times; 1 + 1 + 1 first is 2^24 + 3, which rounds to 2^24 + 4.
    assert (forward.item(), backward.item()) == (2.0**24, 2.0**24 + 4)


def test_a_pool_that_does_not_fit_is_a_model_error() -> None:
    x = np.zeros((1, 4, 4, 1), np.uint8)
    with pytest.raises(ModelError, match=r"of \d+ positions does not fit in 4 positions"):
        compute_max_pool(x, axes_of(x, kernel_shape=[5, 5]))
    with pytest.raises(ModelError, match="do not fit 2 spatial axes"):
        compute_max_pool(x, axes_of(x, kernel_shape=[2]))
