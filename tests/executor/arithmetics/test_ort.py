"""Products and data movement of the ``ort`` arithmetic against ONNX Runtime, which runs the node live."""

from __future__ import annotations

import numpy as np
import pytest
from qlinear import (
    Array,
    RandomOperands,
    assert_same_integers,
    onnxruntime_output,
    qparam_inputs,
    quantized_inputs,
)

from ptq.core.errors import UnsupportedError
from ptq.core.types import INT8, UINT8, QType, QuantParams
from ptq.executor.arithmetics.node_site import Site
from ptq.executor.arithmetics.ort import KERNELS, make_float32_requantizer


@pytest.fixture(params=range(24))
def cases(request: pytest.FixtureRequest) -> RandomOperands:
    return RandomOperands(request.param)


def accumulated_scale(cases: RandomOperands, x: QuantParams, w: QuantParams, depth: int) -> Array:
    """An output scale that spreads the accumulators over some 200 integers."""
    if cases.ties:
        return np.float32(
            2.0 ** np.round(np.log2(float(x.scale) * w.scale.max() * 40 * depth**0.5))
        )
    return np.float32(float(x.scale) * w.scale.max() * 40 * depth**0.5)


def test_conv_is_qlinear_conv(cases: RandomOperands) -> None:
    group = cases.rng.choice([1, 1, 2, 3])
    inner, each = cases.size(4), cases.size(4)
    taps = (cases.size(4), cases.size(4))
    x, w = cases.values(2, group * inner, 8, 7), cases.weights(group * each, inner, *taps)
    xp, wp = cases.params(), cases.weight_params(group * each, 0)
    yp = cases.params(accumulated_scale(cases, xp, wp, inner * taps[0] * taps[1]))
    bias = cases.rng.integers(-2000, 2000, group * each).astype(np.int32)
    attrs = {
        "strides": [cases.size(3), cases.size(3)],
        "pads": [int(v) for v in cases.rng.integers(0, 2, 4)],
        "dilations": [cases.size(3), 1],
        "group": int(group),
    }
    arrays = {
        **quantized_inputs("x", x, xp),
        **quantized_inputs("w", w, wp),
        **qparam_inputs("y", yp),
        "b": bias,
    }
    theirs = onnxruntime_output("QLinearConv", "", list(arrays), arrays, ["x"], **attrs)
    last = np.ascontiguousarray(np.moveaxis(w, 1, -1))
    kernel = KERNELS["Conv"](Site("Conv", attrs, (xp, wp, None), (yp,), (None, last, bias)))
    ours = kernel([np.moveaxis(x, 1, -1), last, bias])
    assert_same_integers(np.moveaxis(ours, -1, 1), theirs)


def test_conv_of_any_rank_and_type_is_qlinear_conv(cases: RandomOperands) -> None:
    rank, group = int(cases.rng.integers(1, 4)), int(cases.rng.choice([1, 2, 5]))
    inner, each = int(cases.rng.choice([1, 3])), int(cases.rng.choice([1, 2]))
    taps = [cases.size(4) for _ in range(rank)]
    wtype = INT8 if cases.qtype == INT8 or cases.rng.integers(2) else UINT8
    low, high = (-64, 65) if wtype == INT8 else (0, 256)
    w = cases.rng.integers(low, high, (group * each, inner, *taps)).astype(wtype.dtype)
    wp = QuantParams(cases.scale(), 0 if wtype == INT8 else cases.rng.integers(256), wtype)
    x, xp = cases.values(2, group * inner, *(8 + t for t in taps)), cases.params()
    yp = cases.params(accumulated_scale(cases, xp, wp, 2 * int(np.prod(w.shape[1:]))))
    attrs = {
        "strides": [cases.size(3) for _ in range(rank)],
        "pads": [int(v) for v in cases.rng.integers(0, 3, 2 * rank)],
        "dilations": [cases.size(4) for _ in range(rank)],
        "group": group,
    }
    if cases.rng.integers(3) == 0:
        attrs |= {"auto_pad": str(cases.rng.choice(["SAME_UPPER", "SAME_LOWER"]))}
        del attrs["pads"], attrs["dilations"]
    arrays = {
        **quantized_inputs("x", x, xp),
        **quantized_inputs("w", w, wp),
        **qparam_inputs("y", yp),
    }
    theirs = onnxruntime_output("QLinearConv", "", list(arrays), arrays, ["x"], **attrs)
    last = np.ascontiguousarray(np.moveaxis(w, 1, -1))
    kernel = KERNELS["Conv"](Site("Conv", attrs, (xp, wp), (yp,), (None, last)))
    ours = kernel([np.moveaxis(x, 1, -1), last])
    assert_same_integers(np.moveaxis(ours, -1, 1), theirs)


BATCHES = [((4, 9), (2, 9, 5)), ((2, 1, 4, 9), (1, 3, 9, 5)), ((2, 3, 4, 9), (3, 9, 5))]


@pytest.mark.parametrize(("left", "right"), BATCHES)
@pytest.mark.parametrize("seed", range(6))
def test_batches_of_matmul_broadcast_as_in_qlinear_matmul(
    left: tuple[int, ...], right: tuple[int, ...], seed: int
) -> None:
    cases = RandomOperands(seed)
    a, b = cases.values(*left), cases.weights(*right)
    ap, bp = cases.params(), QuantParams(cases.scale(), cases.rng.integers(-9, 9), INT8)
    yp = cases.params(accumulated_scale(cases, ap, bp, 9))
    arrays = {
        **quantized_inputs("a", a, ap),
        **quantized_inputs("b", b, bp),
        **qparam_inputs("y", yp),
    }
    theirs = onnxruntime_output("QLinearMatMul", "", list(arrays), arrays, ["a"])
    kernel = KERNELS["MatMul"](Site("MatMul", {}, (ap, bp), (yp,), (None, b)))
    assert_same_integers(kernel([a, b]), theirs)


def test_matmul_is_qlinear_matmul(cases: RandomOperands) -> None:
    m, k, n = cases.size(9), cases.size(90), cases.size(9)
    a, b = cases.values(2, m, k), cases.weights(k, n)
    ap, bp = cases.params(), cases.weight_params(n, 1)
    yp = cases.params(accumulated_scale(cases, ap, bp, k))
    arrays = {
        **quantized_inputs("a", a, ap),
        **quantized_inputs("b", b, bp),
        **qparam_inputs("y", yp),
    }
    theirs = onnxruntime_output("QLinearMatMul", "", list(arrays), arrays, ["a"])
    kernel = KERNELS["MatMul"](Site("MatMul", {}, (ap, bp), (yp,), (None, b)))
    assert_same_integers(kernel([a, b]), theirs)


def test_matmul_of_two_activations_is_qlinear_matmul(cases: RandomOperands) -> None:
    k = cases.size(90)
    a, b = cases.values(2, 3, 5, k), cases.values(3, k, 4)
    if cases.qtype == UINT8:
        b >>= 2  # with int8 it would be a u8 × s8 product, here u8 × u8, which never saturates
    ap, bp = cases.params(), cases.params()
    yp = cases.params(accumulated_scale(cases, ap, bp, 4 * k))
    arrays = {
        **quantized_inputs("a", a, ap),
        **quantized_inputs("b", b, bp),
        **qparam_inputs("y", yp),
    }
    theirs = onnxruntime_output("QLinearMatMul", "", list(arrays), arrays, ["a", "b"])
    kernel = KERNELS["MatMul"](Site("MatMul", {}, (ap, bp), (yp,), (None, None)))
    assert_same_integers(kernel([a, b]), theirs)


def test_matmul_takes_a_scale_a_column_of_what_arrives_too(cases: RandomOperands) -> None:
    a, b = cases.values(3, 7), cases.weights(7, 4)
    ap, bp = cases.params(), cases.weight_params(4, 1)
    yp = cases.params(accumulated_scale(cases, ap, bp, 7))
    arrays = {
        **quantized_inputs("a", a, ap),
        **quantized_inputs("b", b, bp),
        **qparam_inputs("y", yp),
    }
    theirs = onnxruntime_output("QLinearMatMul", "", list(arrays), arrays, ["a", "b"])
    kernel = KERNELS["MatMul"](Site("MatMul", {}, (ap, bp), (yp,), (None, None)))
    assert_same_integers(kernel([a, b]), theirs)


def test_gemm_is_qgemm(cases: RandomOperands) -> None:
    m, k, n = cases.size(9), cases.size(90), cases.size(9)
    turned = bool(cases.rng.integers(2))
    b = cases.weights(n, k) if turned else cases.weights(k, n)
    a, c = cases.values(m, k), cases.rng.integers(-4000, 4000, n).astype(np.int32)
    ap, bp = cases.params(), QuantParams(cases.scale(), 0, INT8)
    alpha = float(np.float32(cases.rng.choice([1.0, 0.37, 1.5486597])))
    yp = cases.params(np.float32(alpha * accumulated_scale(cases, ap, bp, k)))
    arrays = {
        **quantized_inputs("a", a, ap),
        **quantized_inputs("b", b, bp),
        "c": c,
        **qparam_inputs("y", yp),
    }
    attrs = {"alpha": alpha, "transB": int(turned)}
    theirs = onnxruntime_output("QGemm", "com.microsoft", list(arrays), arrays, ["a"], **attrs)
    kernel = KERNELS["Gemm"](Site("Gemm", attrs, (ap, bp, None), (yp,), (None, b, c)))
    assert_same_integers(kernel([a, b, c]), theirs)


def test_gemm_without_c_and_with_transposed_a_is_qgemm(cases: RandomOperands) -> None:
    a, b = cases.values(20, 5), cases.weights(20, 6)
    ap, bp = cases.params(), cases.weight_params(6, 1)
    yp = cases.params(accumulated_scale(cases, ap, bp, 20))
    arrays = {
        **quantized_inputs("a", a, ap),
        **quantized_inputs("b", b, bp),
        **qparam_inputs("y", yp),
    }
    names = [*list(arrays)[:6], "", *list(arrays)[6:]]
    theirs = onnxruntime_output("QGemm", "com.microsoft", names, arrays, ["a"], transA=1)
    kernel = KERNELS["Gemm"](Site("Gemm", {"transA": 1}, (ap, bp), (yp,), (None, b)))
    assert_same_integers(kernel([a, b]), theirs)


def telling_accumulators(
    rng: np.random.Generator, xs: Array, ys: Array, alpha: Array, count: int
) -> tuple[Array, Array]:
    """Weight scales and accumulators whose rounding depends on the order of the float32 products."""
    ws = np.exp(rng.uniform(-7, -4, 100_000)).astype(np.float32)
    ours = alpha * xs * ws / ys
    others = [alpha * xs * (ws / ys), xs * ws / ys * alpha, alpha * (xs * ws) / ys]
    exact = float(alpha) * float(xs) * ws.astype(np.float64) / float(ys)
    acc = np.round((rng.integers(0, 60, ws.size) + 0.5) / exact)
    rounded = [np.rint(acc.astype(np.float32) * s) for s in (ours, *others)]
    rounded.append(np.rint(acc * exact))
    told = np.flatnonzero(np.any([r != rounded[0] for r in rounded[1:]], axis=0))[:count]
    assert told.size
    return ws[told], acc[told].astype(np.int32)


@pytest.mark.parametrize("seed", range(6))
def test_the_scale_of_conv_is_rounded_in_onnxruntimes_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    xs, ys = np.exp(rng.uniform(-5, -2, 2)).astype(np.float32)
    scales, acc = telling_accumulators(rng, xs, ys, np.float32(1), 200)
    xp, yp = QuantParams(xs, 9, UINT8), QuantParams(ys, 100, UINT8)
    wp = QuantParams(scales, np.zeros(acc.size, np.int64), INT8, 0)
    # Inputs at their zero point leave the bias alone in the accumulator.
    x, w = np.full((1, 1, 1, 1), 9, np.uint8), np.ones((acc.size, 1, 1, 1), np.int8)
    arrays = {
        **quantized_inputs("x", x, xp),
        **quantized_inputs("w", w, wp),
        **qparam_inputs("y", yp),
        "b": acc,
    }
    theirs = onnxruntime_output("QLinearConv", "", list(arrays), arrays, ["x"])
    kernel = KERNELS["Conv"](Site("Conv", {}, (xp, wp, None), (yp,), (None, w, acc)))
    assert_same_integers(kernel([x, w, acc]).reshape(-1), theirs.reshape(-1))


@pytest.mark.parametrize("seed", range(6))
def test_the_scale_of_gemm_is_rounded_in_onnxruntimes_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    xs, ys, alpha = np.exp(rng.uniform([-5, -5, -1], [-2, -2, 1])).astype(np.float32)
    scales, acc = telling_accumulators(rng, xs, ys, alpha, 200)
    xp, yp = QuantParams(xs, 9, UINT8), QuantParams(ys, 100, UINT8)
    wp = QuantParams(scales, np.zeros(acc.size, np.int64), INT8, 1)
    x, w, attrs = (
        np.full((1, 1), 9, np.uint8),
        np.ones((1, acc.size), np.int8),
        {"alpha": float(alpha)},
    )
    arrays = {
        **quantized_inputs("x", x, xp),
        **quantized_inputs("w", w, wp),
        "c": acc,
        **qparam_inputs("y", yp),
    }
    theirs = onnxruntime_output("QGemm", "com.microsoft", list(arrays), arrays, ["x"], **attrs)
    kernel = KERNELS["Gemm"](Site("Gemm", attrs, (xp, wp, None), (yp,), (None, w, acc)))
    assert_same_integers(kernel([x, w, acc]), theirs)


def test_a_movement_between_two_scales_requantizes_what_it_moves(cases: RandomOperands) -> None:
    x, xp, yp = cases.values(2, 5, 6, 3), cases.params(), cases.params()
    window = {"kernel_shape": [2, 3], "strides": [1, 2]}
    moved = KERNELS["MaxPool"](Site("MaxPool", window, (xp,), (yp,), (None,)))([x])
    pooled = onnxruntime_output(
        "MaxPool", "", ["x"], {"x": np.moveaxis(x, -1, 1).copy()}, ["x"], **window
    )
    real = xp.dequantize(np.moveaxis(pooled, 1, -1))
    assert_same_integers(moved, yp.quantize(real))


def test_an_operator_without_a_qlinear_kernel_is_missing() -> None:
    assert not {"Sub", "Tanh", "ReduceMean", "Div", "Erf"} & KERNELS.keys()


def test_an_output_without_parameters_is_refused_by_name() -> None:
    params = QuantParams(np.float32(0.1), 0, INT8)
    with pytest.raises(UnsupportedError, match="output of Add is not quantized"):
        KERNELS["Add"](Site("Add", {}, (params, params), (None,), (None, None)))


@pytest.mark.parametrize(
    ("qtype", "zero_point"),
    [(UINT8, 0), (UINT8, 3), (UINT8, 255), (INT8, -128), (INT8, -5), (INT8, 0), (INT8, 127)],
)
def test_ties_fall_to_the_even_step_whatever_the_zero_point(qtype: QType, zero_point: int) -> None:
    """Against numpy's rint of the same float32 product."""
    y = QuantParams.per_tensor(1.0, zero_point, qtype)
    requantize = make_float32_requantizer(Site("Conv", {}, (), (y,)), np.array([0.5], np.float32))
    acc = np.arange(-1200, 1200, dtype=np.float32).reshape(-1, 2)
    steps = np.clip(np.rint(acc / 2), qtype.lo - zero_point, qtype.hi - zero_point)
    np.testing.assert_array_equal(requantize(acc, slice(0, 2)), steps + zero_point)
