"""Oracles: an int64 convolution of a few lines, and ONNX Runtime's ConvInteger and float ConvTranspose."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from old_runtime import skip_before
from onnx import TensorProto, helper
from requantizers import keep

from ptq.core.errors import ModelError
from ptq.core.types import INT8, UINT8
from ptq.kernels import thread_pool
from ptq.kernels.conv import prepare_convolution
from ptq.kernels.conv_transpose import prepare_transposed_convolution
from ptq.kernels.requantizer import Channels


def reference(x, w, bias, zx, zw, strides, pads, dilations, group):  # type: ignore[no-untyped-def]
    rank, (outputs, *kernel, inner) = w.ndim - 2, w.shape
    widths = [(0, 0), *((pads[i], pads[rank + i]) for i in range(rank)), (0, 0)]
    x = np.pad(x.astype(np.int64) - zx, widths)
    w = w.astype(np.int64) - np.reshape(zw, (-1, *(1,) * (rank + 1)))
    sizes = [
        (x.shape[1 + i] - (kernel[i] - 1) * dilations[i] - 1) // strides[i] + 1 for i in range(rank)
    ]
    acc = np.zeros((len(x), *sizes, group, outputs // group), np.int64)
    for tap in np.ndindex(*kernel):
        spans = [
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, dilations, sizes, strides, strict=True)
        ]
        seen = x[(slice(None), *spans)].reshape(len(x), *sizes, group, inner)
        weights = w[(slice(None), *tap)].reshape(group, outputs // group, inner)
        acc += np.einsum("...gc,goc->...go", seen, weights)
    return (acc.reshape(len(x), *sizes, outputs) + (0 if bias is None else bias)).astype(np.int32)


def runtime(op: str, inputs: dict[str, Any], **attributes: Any) -> Any:
    """What ONNX Runtime makes of one node, channels second."""
    if op == "ConvInteger":
        skip_before((1, 24), "has no ConvInteger of uint8 and int8")
    values = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for name, v in inputs.items()
    ]
    kind = TensorProto.FLOAT if op == "ConvTranspose" else TensorProto.INT32
    result = helper.make_tensor_value_info("y", kind, None)
    node = helper.make_node(op, list(inputs), ["y"], **attributes)
    graph = helper.make_graph([node], "one", values, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, inputs)[0]


@st.composite
def geometries(draw: Any, ranks: tuple[int, ...] = (1, 2)) -> dict[str, Any]:
    rank = draw(st.sampled_from(ranks))

    def numbers(lo: int, hi: int, length: int = rank) -> list[int]:
        return draw(st.lists(st.integers(lo, hi), min_size=length, max_size=length))

    kernel = draw(st.one_of(st.just([1] * rank), st.just([3] * rank), st.just(numbers(1, 4))))
    dilations = draw(st.one_of(st.just([1] * rank), st.just(numbers(1, 3))))
    group, inner, each = draw(
        st.sampled_from([(1, 3, 4), (1, 1, 2), (2, 3, 2), (3, 1, 1), (5, 1, 3), (16, 1, 1)])
    )
    return {
        "kernel": kernel,
        "dilations": dilations,
        "strides": numbers(1, 3),
        "pads": numbers(0, 3, 2 * rank),
        "sizes": [
            (k - 1) * d + n for k, d, n in zip(kernel, dilations, numbers(1, 9), strict=True)
        ],
        "images": draw(st.integers(1, 3)),
        "group": group,
        "inner": inner,
        "outputs": group * each,
        "seed": draw(st.integers(0, 2**32 - 1)),
        "zero_point": draw(st.sampled_from([0, 1, 128, 255])),
    }


def arrays(g: dict[str, Any], dtype: type = np.uint8) -> tuple[Any, Any]:
    rng = np.random.default_rng(g["seed"])
    info = np.iinfo(dtype)
    shape = (g["images"], *g["sizes"], g["group"] * g["inner"])
    x = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    w = rng.integers(-128, 127, (g["outputs"], *g["kernel"], g["inner"]), np.int8, endpoint=True)
    return x, w


@settings(max_examples=80)
@given(geometries())
def test_accumulators_equal_those_of_onnx_runtimes_convinteger(g: dict[str, Any]) -> None:
    x, w = arrays(g)
    attributes = {name: g[name] for name in ("strides", "pads", "dilations", "group")}
    inputs = {
        "x": np.moveaxis(x, -1, 1), "w": np.moveaxis(w, -1, 1), "zx": np.array(g["zero_point"], np.uint8),
    }  # fmt: skip
    expected = np.moveaxis(runtime("ConvInteger", inputs, **attributes), 1, -1)
    run = prepare_convolution(w, None, x_qtype=UINT8, x_zero_point=g["zero_point"], **attributes)
    np.testing.assert_array_equal(run(x, keep), expected)


@settings(max_examples=60)
@given(geometries(ranks=(1, 2, 3)), st.booleans())
def test_int8_inputs_bias_and_weight_zero_points_equal_an_int64_convolution(
    g: dict[str, Any], large: bool
) -> None:
    x, w = arrays(g, np.int8)
    rng = np.random.default_rng(g["seed"])
    bound = 2**31 - 1 if large else 5000
    bias = rng.integers(-bound, bound, g["outputs"]).astype(np.int32)
    zw = rng.integers(-128, 128, g["outputs"])
    attributes = {name: g[name] for name in ("strides", "pads", "dilations", "group")}
    zx = g["zero_point"] - 128
    run = prepare_convolution(w, bias, x_qtype=INT8, x_zero_point=zx, w_zero_point=zw, **attributes)
    np.testing.assert_array_equal(run(x, keep), reference(x, w, bias, zx, zw, **attributes))


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize(
    ("kernel", "stride"), [(1, 1), (1, 2), (2, 1), (3, 1), (3, 2), (4, 3), (5, 2)]
)
@pytest.mark.parametrize("size", [7, 12])
@pytest.mark.parametrize("group", [1, 6])
def test_auto_pad_is_resolved_as_onnx_runtime_does(
    auto_pad: str, kernel: int, stride: int, size: int, group: int
) -> None:
    rng = np.random.default_rng(kernel * 100 + stride * 10 + size)
    x = rng.integers(0, 256, (2, size, size + 1, 6)).astype(np.uint8)
    w = rng.integers(-128, 128, (6, kernel, kernel, 6 // group)).astype(np.int8)
    attributes: dict[str, Any] = {"auto_pad": auto_pad, "strides": [stride] * 2, "group": group}
    inputs = {"x": np.moveaxis(x, -1, 1), "w": np.moveaxis(w, -1, 1), "zx": np.array(77, np.uint8)}
    expected = np.moveaxis(runtime("ConvInteger", inputs, **attributes), 1, -1)
    run = prepare_convolution(w, None, x_qtype=UINT8, x_zero_point=77, **attributes)
    np.testing.assert_array_equal(run(x, keep), expected)


@pytest.mark.parametrize("zero_point", [0, 128, 255])
def test_a_sum_beyond_float32_is_exact_against_int64(zero_point: int) -> None:
    rng = np.random.default_rng(zero_point)
    x = rng.choice([0, 254, 255], (1, 5, 5, 512)).astype(np.uint8)
    w = rng.choice([-127, 126, 127], (20, 3, 3, 512), p=[0.02, 0.49, 0.49]).astype(np.int8)
    run = prepare_convolution(w, None, x_qtype=UINT8, x_zero_point=zero_point, pads=[1] * 4)
    expected = reference(x, w, None, zero_point, 0, (1, 1), [1] * 4, (1, 1), 1)
    assert np.abs(expected).max() > 2**24
    np.testing.assert_array_equal(run(x, keep), expected)


def test_a_depthwise_sum_beyond_float32_is_exact_against_int64() -> None:
    rng = np.random.default_rng(5)
    x = rng.integers(250, 256, (1, 30, 30, 3)).astype(np.uint8)
    w = rng.integers(120, 128, (6, 25, 25, 1)).astype(np.int8)
    run = prepare_convolution(w, None, x_qtype=UINT8, x_zero_point=0, group=3)
    expected = reference(x, w, None, 0, 0, (1, 1), [0] * 4, (1, 1), 3)
    assert expected.max() > 2**24
    np.testing.assert_array_equal(run(x, keep), expected)


@pytest.mark.parametrize("group", [1, 2, 4])
@pytest.mark.parametrize("size", [1, 3])
def test_an_accumulator_wraps_as_int32_does(group: int, size: int) -> None:
    x = np.full((1, 4, 4, 4), 255, np.uint8)
    w = np.full((4, size, size, 4 // group), 127, np.int8)
    bias = np.full(4, 2**31 - 100, np.int32)
    got = prepare_convolution(w, bias, x_qtype=UINT8, x_zero_point=0, group=group)(x, keep)
    assert np.all(got == np.int64(2**31 - 100 + 255 * 127 * size**2 * 4 // group - 2**32))


@pytest.mark.parametrize(
    ("group", "inner", "size", "pads"), [(1, 64, 1, 0), (1, 64, 3, 1), (64, 1, 3, 1), (2, 32, 3, 0)]
)
def test_the_number_of_threads_does_not_change_the_result(
    group: int, inner: int, size: int, pads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(7)
    x = rng.integers(0, 256, (3, 40, 40, 64)).astype(np.uint8)
    w = rng.integers(-128, 128, (64, size, size, inner)).astype(np.int8)
    bias = rng.integers(-9999, 9999, 64).astype(np.int32)
    run = prepare_convolution(w, bias, x_qtype=UINT8, x_zero_point=9, group=group, pads=[pads] * 4)
    results = []
    monkeypatch.setattr(thread_pool, "MIN_PARALLEL_NANOSECONDS", 0)
    for number in (1, 2, 5):
        monkeypatch.setattr(thread_pool, "get_thread_count", lambda number=number: number)
        results.append(run(x, keep))
    np.testing.assert_array_equal(
        results[0], reference(x, w, bias, 9, 0, (1, 1), [pads] * 4, (1, 1), group)
    )
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_one_kernel_serves_inputs_of_several_sizes() -> None:
    rng = np.random.default_rng(8)
    for group in (1, 8):
        w = rng.integers(-128, 128, (8, 3, 3, 8 // group)).astype(np.int8)
        run = prepare_convolution(
            w, None, x_qtype=UINT8, x_zero_point=3, group=group, auto_pad="SAME_UPPER"
        )
        for size in (9, 14, 9, 4):
            x = rng.integers(0, 256, (2, size, size + 1, 8)).astype(np.uint8)
            expected = reference(x, w, None, 3, 0, (1, 1), [1] * 4, (1, 1), group)
            np.testing.assert_array_equal(run(x, keep), expected)


def test_a_tiles_error_reaches_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_pool, "get_thread_count", lambda: 2)
    monkeypatch.setattr(thread_pool, "MIN_PARALLEL_NANOSECONDS", 0)

    def fail(acc: Any, channels: Channels) -> Any:
        raise ValueError("from the requantizer")

    x = np.zeros((4, 40, 40, 64), np.uint8)
    run = prepare_convolution(np.ones((64, 3, 3, 64), np.int8), None, x_qtype=UINT8, x_zero_point=0)
    with pytest.raises(ValueError, match="from the requantizer"):
        run(x, fail)


def test_a_window_without_a_place_is_a_model_error() -> None:
    run = prepare_convolution(np.ones((2, 3, 3, 2), np.int8), None, x_qtype=UINT8, x_zero_point=0)
    with pytest.raises(ModelError, match=r"of \d+ positions does not fit in 2 positions"):
        run(np.zeros((1, 2, 2, 2), np.uint8), keep)
    with pytest.raises(ModelError, match="2 input channels got 3"):
        run(np.zeros((1, 5, 5, 3), np.uint8), keep)


@settings(max_examples=60)
@given(geometries(), st.sampled_from(["pads", "SAME_UPPER", "SAME_LOWER", "shape"]))
def test_a_transposed_convolution_equals_onnx_runtimes_in_float(
    g: dict[str, Any], how: str
) -> None:
    x, w = arrays(g)
    rank, zero_point = len(g["kernel"]), g["zero_point"]
    attributes = {name: g[name] for name in ("strides", "dilations", "group")}
    full = [
        (n - 1) * s + (k - 1) * d + 1
        for n, s, k, d in zip(g["sizes"], g["strides"], g["kernel"], g["dilations"], strict=True)
    ]
    if how == "pads":
        attributes["pads"] = [min(p, (full[i % rank] - 1) // 2) for i, p in enumerate(g["pads"])]
        attributes["output_padding"] = [s - 1 for s in g["strides"]]
    elif how == "shape":
        attributes["output_shape"] = [max(1, n - p) for n, p in zip(full, g["pads"], strict=False)]
    else:
        attributes["auto_pad"] = how
    # ONNX wants (C, O / group, spatial…). All sums stay below 2^24, so that float32 is exact.
    each = g["outputs"] // g["group"]
    grouped = w.reshape(g["group"], each, *g["kernel"], g["inner"])
    weights = np.moveaxis(grouped, -1, 1).reshape(g["group"] * g["inner"], each, *g["kernel"])
    real = np.moveaxis(x.astype(np.float32) - zero_point, -1, 1)
    inputs = {"x": real, "w": weights.astype(np.float32)}
    expected = np.moveaxis(runtime("ConvTranspose", inputs, **attributes), 1, -1)
    run = prepare_transposed_convolution(
        w, None, x_qtype=UINT8, x_zero_point=zero_point, **attributes
    )
    np.testing.assert_array_equal(run(x, keep), expected)


def test_a_transposed_convolution_is_exact_beyond_float32_and_wraps() -> None:
    x = np.full((1, 3, 3, 600), 255, np.uint8)
    w = np.full((2, 2, 2, 600), 127, np.int8)
    bias = np.array([0, 2**31 - 1], np.int32)
    run = prepare_transposed_convolution(w, bias, x_qtype=UINT8, x_zero_point=0, strides=[1, 1])
    got = run(x, keep)
    whole = 600 * 255 * 127
    assert got[0, 1, 1].tolist() == [4 * whole, 2**31 - 1 + 4 * whole - 2**32]
    assert got[0, 0, 0].tolist() == [whole, 2**31 - 1 + whole - 2**32]
