"""Every kernel of the ``ort`` arithmetic against ONNX Runtime, which runs the one-node QLinear model live."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from ptq.arithmetics.ort import KERNELS
from ptq.arithmetics.site import Site
from ptq.errors import UnsupportedError
from ptq.types import INT8, UINT8, QuantParams

Array = Any
ELEMENT = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "float32": TensorProto.FLOAT}
SEEDS = range(24)


def onnxruntime_output(
    op: str, domain: str, names: list[str], arrays: dict[str, Array], fed: list[str], **attrs: Any
) -> Array:
    """The output of a one-node model; inputs that are not fed are initializers."""
    node = helper.make_node(op, names, ["y"], domain=domain, **attrs)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(n, ELEMENT[arrays[n].dtype.name], arrays[n].shape) for n in fed],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(a, n) for n, a in arrays.items() if n not in fed],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {n: arrays[n] for n in fed})[0]


class Cases:
    """Random operands of one seed: every third seed has power-of-two scales, whose sums tie."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.qtype = (UINT8, INT8)[seed % 2]
        self.ties = seed % 3 == 0

    def scale(self, low: float = 0.002, high: float = 0.1) -> Array:
        if self.ties:
            return np.float32(2.0 ** self.rng.integers(-8, -3))
        return np.float32(np.exp(self.rng.uniform(np.log(low), np.log(high))))

    def params(self, scale: Array | None = None) -> QuantParams:
        zero = self.rng.choice([self.qtype.lo, self.qtype.hi, self.rng.integers(self.qtype.lo, self.qtype.hi)])
        return QuantParams(self.scale() if scale is None else scale, zero, self.qtype)

    def values(self, *shape: int) -> Array:
        q = self.rng.integers(self.qtype.lo, self.qtype.hi + 1, shape)
        return q.astype(self.qtype.dtype)

    def weights(self, *shape: int) -> Array:
        """At most 64 in magnitude: without VNNI, larger products saturate in pairs."""
        return self.rng.integers(-64, 65, shape).astype(np.int8)

    def weight_params(self, channels: int, axis: int) -> QuantParams:
        if self.rng.integers(2):
            return QuantParams(self.scale(), 0, INT8)
        scale = np.array([self.scale() for _ in range(channels)], np.float32)
        return QuantParams(scale, np.zeros(channels, np.int64), INT8, axis)

    def size(self, high: int = 6) -> int:
        return int(self.rng.integers(1, high))


@pytest.fixture(params=SEEDS)
def cases(request: pytest.FixtureRequest) -> Iterator[Cases]:
    yield Cases(request.param)


def quantized(name: str, q: Array, params: QuantParams) -> dict[str, Array]:
    """A value with its scale and zero point, in the order of a QLinear node's inputs."""
    return {name: q, **parameters(name, params)}


def parameters(name: str, params: QuantParams) -> dict[str, Array]:
    return {f"{name}_scale": params.scale, f"{name}_zero": params.zero_point.astype(params.qtype.dtype)}


def assert_same_integers(ours: Array, theirs: Array) -> None:
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours, theirs)


def accumulated_scale(cases: Cases, x: QuantParams, w: QuantParams, depth: int) -> Array:
    """An output scale that spreads the accumulators over some 200 integers."""
    if cases.ties:
        return np.float32(2.0 ** np.round(np.log2(float(x.scale) * w.scale.max() * 40 * depth**0.5)))
    return np.float32(float(x.scale) * w.scale.max() * 40 * depth**0.5)


def test_conv_is_qlinear_conv(cases: Cases) -> None:
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
    arrays = {**quantized("x", x, xp), **quantized("w", w, wp), **parameters("y", yp), "b": bias}
    theirs = onnxruntime_output("QLinearConv", "", list(arrays), arrays, ["x"], **attrs)
    last = np.ascontiguousarray(np.moveaxis(w, 1, -1))
    kernel = KERNELS["Conv"](Site("Conv", attrs, (xp, wp, None), (yp,), (None, last, bias)))
    ours = kernel([np.moveaxis(x, 1, -1), last, bias])
    assert_same_integers(np.moveaxis(ours, -1, 1), theirs)


def test_matmul_is_qlinear_matmul(cases: Cases) -> None:
    m, k, n = cases.size(9), cases.size(90), cases.size(9)
    a, b = cases.values(2, m, k), cases.weights(k, n)
    ap, bp = cases.params(), cases.weight_params(n, 1)
    yp = cases.params(accumulated_scale(cases, ap, bp, k))
    arrays = {**quantized("a", a, ap), **quantized("b", b, bp), **parameters("y", yp)}
    theirs = onnxruntime_output("QLinearMatMul", "", list(arrays), arrays, ["a"])
    kernel = KERNELS["MatMul"](Site("MatMul", {}, (ap, bp), (yp,), (None, b)))
    assert_same_integers(kernel([a, b]), theirs)


def test_matmul_of_two_activations_is_qlinear_matmul(cases: Cases) -> None:
    k = cases.size(90)
    a, b = cases.values(2, 3, 5, k), cases.values(3, k, 4)
    if cases.qtype == UINT8:
        b >>= 2  # with int8 it would be a u8 × s8 product, here u8 × u8, which never saturates
    ap, bp = cases.params(), cases.params()
    yp = cases.params(accumulated_scale(cases, ap, bp, 4 * k))
    arrays = {**quantized("a", a, ap), **quantized("b", b, bp), **parameters("y", yp)}
    theirs = onnxruntime_output("QLinearMatMul", "", list(arrays), arrays, ["a", "b"])
    kernel = KERNELS["MatMul"](Site("MatMul", {}, (ap, bp), (yp,), (None, None)))
    assert_same_integers(kernel([a, b]), theirs)


def test_gemm_is_qgemm(cases: Cases) -> None:
    m, k, n = cases.size(9), cases.size(90), cases.size(9)
    turned = bool(cases.rng.integers(2))
    b = cases.weights(n, k) if turned else cases.weights(k, n)
    a, c = cases.values(m, k), cases.rng.integers(-4000, 4000, n).astype(np.int32)
    ap, bp = cases.params(), QuantParams(cases.scale(), 0, INT8)
    alpha = float(np.float32(cases.rng.choice([1.0, 0.37, 1.5486597])))
    yp = cases.params(np.float32(alpha * accumulated_scale(cases, ap, bp, k)))
    arrays = {**quantized("a", a, ap), **quantized("b", b, bp), "c": c, **parameters("y", yp)}
    attrs = {"alpha": alpha, "transB": int(turned)}
    theirs = onnxruntime_output("QGemm", "com.microsoft", list(arrays), arrays, ["a"], **attrs)
    kernel = KERNELS["Gemm"](Site("Gemm", attrs, (ap, bp, None), (yp,), (None, b, c)))
    assert_same_integers(kernel([a, b, c]), theirs)


def test_gemm_without_c_and_with_transposed_a_is_qgemm(cases: Cases) -> None:
    a, b = cases.values(20, 5), cases.weights(20, 6)
    ap, bp = cases.params(), cases.weight_params(6, 1)
    yp = cases.params(accumulated_scale(cases, ap, bp, 20))
    arrays = {**quantized("a", a, ap), **quantized("b", b, bp), **parameters("y", yp)}
    names = [*list(arrays)[:6], "", *list(arrays)[6:]]
    theirs = onnxruntime_output("QGemm", "com.microsoft", names, arrays, ["a"], transA=1)
    kernel = KERNELS["Gemm"](Site("Gemm", {"transA": 1}, (ap, bp), (yp,), (None, b)))
    assert_same_integers(kernel([a, b]), theirs)


BROADCASTS = [
    ((4, 256), (4, 256)),
    ((7, 33), (33,)),
    ((33,), (7, 33)),
    ((7, 33), (7, 1)),
    ((7, 1), (7, 33)),
    ((1, 33), (7, 1)),
    ((7, 1), (1, 33)),
    ((7, 33), ()),
    ((), (7, 33)),
    ((2, 5, 3, 4), (5, 1, 1)),
    ((5, 1, 1), (2, 5, 3, 4)),
]


@pytest.mark.parametrize(("left", "right"), BROADCASTS)
@pytest.mark.parametrize("op", ["Add", "Mul"])
@pytest.mark.parametrize("seed", range(6))
def test_add_and_mul_are_their_qlinear_kernels(
    op: str, left: tuple[int, ...], right: tuple[int, ...], seed: int
) -> None:
    cases = Cases(seed)
    a, b = cases.values(*left), cases.values(*right)
    ap, bp = cases.params(), cases.params()
    spread = float(ap.scale * bp.scale) * 100 if op == "Mul" else float(ap.scale + bp.scale)
    yp = cases.params(np.float32(2.0 ** np.ceil(np.log2(spread)) if cases.ties else spread))
    arrays = {**quantized("a", a, ap), **quantized("b", b, bp), **parameters("y", yp)}
    theirs = onnxruntime_output(f"QLinear{op}", "com.microsoft", list(arrays), arrays, ["a", "b"])
    kernel = KERNELS[op](Site(op, {}, (ap, bp), (yp,), (None, None)))
    assert_same_integers(kernel([a, b]), theirs)


def test_average_pool_is_qlinear_average_pool(cases: Cases) -> None:
    x, xp = cases.values(2, 3, 9, 8), cases.params()
    yp = cases.params(np.float32(float(xp.scale) * (1 if cases.ties else cases.rng.uniform(0.6, 1.3))))
    attrs = {
        "kernel_shape": [int(v) for v in cases.rng.integers(2, 5, 2)],
        "strides": [cases.size(3), cases.size(3)],
        "pads": [int(v) for v in cases.rng.integers(0, 2, 4)],
        "count_include_pad": int(cases.rng.integers(2)),
    }
    arrays = {**quantized("x", x, xp), **parameters("y", yp)}
    theirs = onnxruntime_output("QLinearAveragePool", "com.microsoft", list(arrays), arrays, ["x"], **attrs)
    kernel = KERNELS["AveragePool"](Site("AveragePool", attrs, (xp,), (yp,), (None,)))
    assert_same_integers(np.moveaxis(kernel([np.moveaxis(x, 1, -1)]), -1, 1), theirs)


def test_global_average_pool_is_its_qlinear_kernel(cases: Cases) -> None:
    x, xp = cases.values(2, 5, cases.size(12), cases.size(12)), cases.params()
    yp = cases.params(np.float32(float(xp.scale) * (1 if cases.ties else cases.rng.uniform(0.6, 1.3))))
    arrays = {**quantized("x", x, xp), **parameters("y", yp)}
    theirs = onnxruntime_output("QLinearGlobalAveragePool", "com.microsoft", list(arrays), arrays, ["x"])
    kernel = KERNELS["GlobalAveragePool"](Site("GlobalAveragePool", {}, (xp,), (yp,), (None,)))
    assert_same_integers(np.moveaxis(kernel([np.moveaxis(x, 1, -1)]), -1, 1), theirs)


def every_integer(cases: Cases) -> Array:
    return np.arange(256, dtype=np.uint8).view(cases.qtype.dtype).reshape(4, 64)


@pytest.mark.parametrize(
    ("op", "attrs"), [("Sigmoid", {}), ("LeakyRelu", {"alpha": 0.1}), ("LeakyRelu", {"alpha": 0.5})]
)
def test_sigmoid_and_leaky_relu_are_their_qlinear_kernels(
    cases: Cases, op: str, attrs: dict[str, float]
) -> None:
    x, xp, yp = every_integer(cases), cases.params(), cases.params()
    arrays = {**quantized("x", x, xp), **parameters("y", yp)}
    theirs = onnxruntime_output(f"QLinear{op}", "com.microsoft", list(arrays), arrays, ["x"], **attrs)
    kernel = KERNELS[op](Site(op, attrs, (xp,), (yp,), (None,)))
    assert_same_integers(kernel([x]), theirs)


@pytest.mark.parametrize("length", [2, 3, 10, 37, 1000])
def test_softmax_is_qlinear_softmax(cases: Cases, length: int) -> None:
    x, xp = cases.values(6, length), cases.params()
    scale = np.float32(1 / 256) if cases.rng.integers(2) else cases.scale(0.002, 0.02)
    yp = cases.params(scale)
    arrays = {**quantized("x", x, xp), **parameters("y", yp)}
    attrs = {"axis": -1, "opset": 13}
    theirs = onnxruntime_output("QLinearSoftmax", "com.microsoft", list(arrays), arrays, ["x"], **attrs)
    kernel = KERNELS["Softmax"](Site("Softmax", {"axis": -1}, (xp,), (yp,), (None,)))
    assert_same_integers(kernel([x]), theirs)


def test_concat_is_qlinear_concat(cases: Cases) -> None:
    parts = [cases.values(2, cases.size(), 3) for _ in range(3)]
    yp = cases.params()
    params = [cases.params(), yp, cases.params()]
    arrays = parameters("y", yp)
    for i, (part, p) in enumerate(zip(parts, params, strict=True)):
        arrays |= quantized(f"x{i}", part, p)
    fed = ["x0", "x1", "x2"]
    theirs = onnxruntime_output("QLinearConcat", "com.microsoft", list(arrays), arrays, fed, axis=1)
    kernel = KERNELS["Concat"](Site("Concat", {"axis": 1}, tuple(params), (yp,), (None,) * 3))
    assert_same_integers(kernel(parts), theirs)


def test_quantize_linear_is_onnxruntimes(cases: Cases) -> None:
    yp = cases.params()
    x = (cases.rng.integers(-600, 600, 500) / 2 * yp.scale).astype(np.float32)
    arrays = {"x": x, **parameters("y", yp)}
    theirs = onnxruntime_output("QuantizeLinear", "", list(arrays), arrays, ["x"])
    kernel = KERNELS["QuantizeLinear"](Site("QuantizeLinear", {}, (None,), (yp,), (None,)))
    assert_same_integers(kernel([x]), theirs)


@pytest.mark.parametrize("op", ["Requantize", "Relu", "Clip"])
def test_tables_are_dequantize_then_float_then_quantize(cases: Cases, op: str) -> None:
    x, xp, yp = every_integer(cases), cases.params(), cases.params()
    real = onnxruntime_output(
        "DequantizeLinear", "", ["x", "x_scale", "x_zero"], quantized("x", x, xp), ["x"]
    )
    if op == "Relu":
        real = onnxruntime_output("Relu", "", ["x"], {"x": real}, ["x"])
    if op == "Clip":
        low, high = np.float32(-0.5), np.float32(1.5)
        real = onnxruntime_output("Clip", "", ["x", "l", "h"], {"x": real, "l": low, "h": high}, ["x"])
    arrays = {"x": real, **parameters("y", yp)}
    theirs = onnxruntime_output("QuantizeLinear", "", list(arrays), arrays, ["x"])
    attrs = {"min": -0.5, "max": 1.5} if op == "Clip" else {}
    kernel = KERNELS[op](Site(op, attrs, (xp,), (yp,), (None,)))
    assert_same_integers(kernel([x]), theirs)


def test_a_movement_between_two_scales_requantizes_what_it_moves(cases: Cases) -> None:
    x, xp, yp = cases.values(2, 5, 6, 3), cases.params(), cases.params()
    window = {"kernel_shape": [2, 3], "strides": [1, 2]}
    moved = KERNELS["MaxPool"](Site("MaxPool", window, (xp,), (yp,), (None,)))([x])
    pooled = onnxruntime_output("MaxPool", "", ["x"], {"x": np.moveaxis(x, -1, 1).copy()}, ["x"], **window)
    real = xp.dequantize(np.moveaxis(pooled, 1, -1))
    assert_same_integers(moved, yp.quantize(real))


def test_an_operator_without_a_qlinear_kernel_is_missing() -> None:
    assert not {"Sub", "Tanh", "ReduceMean", "Div", "Erf"} & KERNELS.keys()


def test_an_output_without_parameters_is_refused_by_name() -> None:
    params = QuantParams(np.float32(0.1), 0, INT8)
    with pytest.raises(UnsupportedError, match="output of Add is not quantized"):
        KERNELS["Add"](Site("Add", {}, (params, params), (None,), (None, None)))
