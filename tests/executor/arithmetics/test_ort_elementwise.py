"""Tables of the ``ort`` arithmetic against ONNX Runtime, which runs the node live."""

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

from ptq.core.types import INT8, UINT8, QType, QuantParams
from ptq.executor.arithmetics import quantizers
from ptq.executor.arithmetics.node_site import Site
from ptq.executor.arithmetics.ort_elementwise import KERNELS


@pytest.fixture(params=range(24))
def cases(request: pytest.FixtureRequest) -> RandomOperands:
    return RandomOperands(request.param)


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
    cases = RandomOperands(seed)
    a, b = cases.values(*left), cases.values(*right)
    ap, bp = cases.params(), cases.params()
    spread = float(ap.scale * bp.scale) * 100 if op == "Mul" else float(ap.scale + bp.scale)
    yp = cases.params(np.float32(2.0 ** np.ceil(np.log2(spread)) if cases.ties else spread))
    arrays = {
        **quantized_inputs("a", a, ap),
        **quantized_inputs("b", b, bp),
        **qparam_inputs("y", yp),
    }
    theirs = onnxruntime_output(f"QLinear{op}", "com.microsoft", list(arrays), arrays, ["a", "b"])
    kernel = KERNELS[op](Site(op, {}, (ap, bp), (yp,), (None, None)))
    assert_same_integers(kernel([a, b]), theirs)


ALL_PAIRS = [
    ((256, 1), (1, 256)),
    ((1, 256), (256, 1)),
    ((256, 1, 1), (256, 1)),
    ((256, 1), (256, 1, 1)),
]


@pytest.mark.parametrize(("left", "right"), ALL_PAIRS)
@pytest.mark.parametrize("seed", range(12))
def test_add_exchanges_its_operands_where_onnxruntime_does(
    left: tuple[int, ...], right: tuple[int, ...], seed: int
) -> None:
    # Scales in small ratios bring sums so close to ties that the order of the two roundings shows.
    rng = np.random.default_rng(seed)
    qtype = (UINT8, INT8)[seed % 2]
    ka, kb, k = (int(v) for v in rng.integers(1, 40, 3))
    every = np.arange(qtype.lo, qtype.hi + 1).astype(qtype.dtype)
    a, b = every.reshape(left), every.reshape(right)
    ap, bp, yp = (
        QuantParams(np.float32(v * 0.01), int(rng.integers(qtype.lo, qtype.hi)), qtype)
        for v in (ka, kb, ka + kb + k % 3)
    )
    arrays = {
        **quantized_inputs("a", a, ap),
        **quantized_inputs("b", b, bp),
        **qparam_inputs("y", yp),
    }
    theirs = onnxruntime_output("QLinearAdd", "com.microsoft", list(arrays), arrays, ["a", "b"])
    kernel = KERNELS["Add"](Site("Add", {}, (ap, bp), (yp,), (None, None)))
    assert_same_integers(kernel([a, b]), theirs)


@pytest.mark.parametrize("left", [(256, 1), (1, 256), (256, 1, 1)])
@pytest.mark.parametrize("right", [(), (1,), (1, 1)])
@pytest.mark.parametrize("seed", range(2))
def test_add_of_one_value_begins_at_the_axes_that_both_have(
    left: tuple[int, ...], right: tuple[int, ...], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    a = np.arange(256).astype(np.uint8).reshape(left)
    for value in range(1, 256, 16):
        b = np.full(right, value, np.uint8)
        ap, bp, yp = (
            QuantParams(np.float32(v), int(rng.integers(256)), UINT8)
            for v in rng.integers(1, 40, 3) * 0.01
        )
        arrays = {
            **quantized_inputs("a", a, ap),
            **quantized_inputs("b", b, bp),
            **qparam_inputs("y", yp),
        }
        theirs = onnxruntime_output("QLinearAdd", "com.microsoft", list(arrays), arrays, ["a", "b"])
        kernel = KERNELS["Add"](Site("Add", {}, (ap, bp), (yp,), (None, None)))
        assert_same_integers(kernel([a, b]), theirs)


def every_integer(cases: RandomOperands) -> Array:
    return np.arange(256, dtype=np.uint8).view(cases.qtype.dtype).reshape(4, 64)


@pytest.mark.parametrize(
    ("op", "attrs"), [("Sigmoid", {}), ("LeakyRelu", {"alpha": 0.1}), ("LeakyRelu", {"alpha": 0.5})]
)
def test_sigmoid_and_leaky_relu_are_their_qlinear_kernels(
    cases: RandomOperands, op: str, attrs: dict[str, float]
) -> None:
    x, xp, yp = every_integer(cases), cases.params(), cases.params()
    arrays = {**quantized_inputs("x", x, xp), **qparam_inputs("y", yp)}
    theirs = onnxruntime_output(
        f"QLinear{op}", "com.microsoft", list(arrays), arrays, ["x"], **attrs
    )
    kernel = KERNELS[op](Site(op, attrs, (xp,), (yp,), (None,)))
    assert_same_integers(kernel([x]), theirs)


def test_concat_is_qlinear_concat(cases: RandomOperands) -> None:
    parts = [cases.values(2, cases.size(), 3) for _ in range(3)]
    yp = cases.params()
    params = [cases.params(), yp, cases.params()]
    arrays = qparam_inputs("y", yp)
    for i, (part, p) in enumerate(zip(parts, params, strict=True)):
        arrays |= quantized_inputs(f"x{i}", part, p)
    fed = ["x0", "x1", "x2"]
    theirs = onnxruntime_output("QLinearConcat", "com.microsoft", list(arrays), arrays, fed, axis=1)
    kernel = KERNELS["Concat"](Site("Concat", {"axis": 1}, tuple(params), (yp,), (None,) * 3))
    assert_same_integers(kernel(parts), theirs)


def test_quantize_linear_is_onnxruntimes(cases: RandomOperands) -> None:
    yp = cases.params()
    x = (cases.rng.integers(-600, 600, 500) / 2 * yp.scale).astype(np.float32)
    arrays = {"x": x, **qparam_inputs("y", yp)}
    theirs = onnxruntime_output("QuantizeLinear", "", list(arrays), arrays, ["x"])
    kernel = quantizers.ORT["QuantizeLinear"](Site("QuantizeLinear", {}, (None,), (yp,), (None,)))
    assert_same_integers(kernel([x]), theirs)


@pytest.mark.parametrize("op", ["Requantize", "Relu", "Clip"])
def test_tables_are_dequantize_then_float_then_quantize(cases: RandomOperands, op: str) -> None:
    x, xp, yp = every_integer(cases), cases.params(), cases.params()
    real = onnxruntime_output(
        "DequantizeLinear", "", ["x", "x_scale", "x_zero"], quantized_inputs("x", x, xp), ["x"]
    )
    if op == "Relu":
        real = onnxruntime_output("Relu", "", ["x"], {"x": real}, ["x"])
    if op == "Clip":
        low, high = np.float32(-0.5), np.float32(1.5)
        real = onnxruntime_output(
            "Clip", "", ["x", "l", "h"], {"x": real, "l": low, "h": high}, ["x"]
        )
    arrays = {"x": real, **qparam_inputs("y", yp)}
    theirs = onnxruntime_output("QuantizeLinear", "", list(arrays), arrays, ["x"])
    attrs = {"min": -0.5, "max": 1.5} if op == "Clip" else {}
    kernel = KERNELS[op](Site(op, attrs, (xp,), (yp,), (None,)))
    assert_same_integers(kernel([x]), theirs)


@pytest.mark.parametrize(("op", "scale"), [("Add", 1e-7), ("Mul", 5e-6)])
def test_a_result_from_two_to_the_31_steps_on_is_the_lowest_integer(op: str, scale: float) -> None:
    x = np.array([[1, 64, 103, 104, 107, 108]], np.uint8)
    one, y = (QuantParams.per_tensor(s, 0, UINT8) for s in (1.0, scale))
    arrays = {
        "a": x,
        **qparam_inputs("a", one),
        "b": x,
        **qparam_inputs("b", one),
        **qparam_inputs("y", y),
    }
    theirs = onnxruntime_output(f"QLinear{op}", "com.microsoft", list(arrays), arrays, ["a", "b"])
    assert theirs[0, 0] == 255
    assert theirs[0, -1] == 0
    ours = KERNELS[op](Site(op, {}, (one, one), (y,)))([x, x])
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("qtype", [INT8, UINT8])
def test_what_is_not_a_number_is_quantized_to_the_lowest_integer(qtype: QType) -> None:
    y = QuantParams.per_tensor(0.1, 5, qtype)
    arrays = {"x": np.array([np.nan, 1, np.inf, -np.inf], np.float32), **qparam_inputs("y", y)}
    theirs = onnxruntime_output("QuantizeLinear", "", list(arrays), arrays, ["x"])
    ours = quantizers.ORT["QuantizeLinear"](Site("QuantizeLinear", {}, (None,), (y,)))(
        [arrays["x"]]
    )
    np.testing.assert_array_equal(ours, theirs)
