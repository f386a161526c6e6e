"""The error of functions of one value, of all 256 inputs at several scales, against float64.

The bounds are those that the modules state, in LSB of the output.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sites import int8_params, run_node

from ptq.core.errors import UnsupportedError
from ptq.core.ops import OPS, UNARY
from ptq.executor.arithmetics import ARITHMETICS
from ptq.kernels.real_functions import FUNCTIONS, get_real_function

Q = np.arange(-128, 128, dtype=np.int8)
ATTRIBUTES: dict[str, dict[str, Any]] = {"Pow": {"exponent": 2.0}, "Elu": {"alpha": 0.7}}
TABLE = 0.5 + 2.0**-14
"""A table made in float32; one made in float64 is better."""
BOUNDS = {
    # two roundings, the second after a shift by one bit and more
    ("litert", "Abs"): 0.75,
    ("litert", "LeakyRelu"): 0.75,
    ("litert", "HardSwish"): 0.75,
    ("litert", "Sqrt"): 1.0,  # cut off
    ("tpu-mlir", "LeakyRelu"): 0.5 + 128 * 2.0**-7,  # slopes of 8 bits
    ("tpu-mlir-8", "LeakyRelu"): 0.5 + 128 * 2.0**-7,
}
JUMPS = ("Ceil", "Floor", "Round", "ThresholdedRelu")
"""Discontinuous: beside a jump the side is that of x as the table's own format has it."""
SAME_AS_LITERT = ("tflite-micro", "gemmlowp")
PAIRS = [
    (name, op)
    for name in ("litert", "tpu-mlir", "tpu-mlir-8", "fixed-point")
    for op in FUNCTIONS
    if op in ARITHMETICS[name]
]


def settings(name: str, op: str) -> Iterator[tuple[float, int, float, int]]:
    """Scales and zero points of input and output that use most of the output's steps."""
    symmetric = name.startswith("tpu")
    for step, zero in ((0.004, 0), (0.03, -41), (0.0625, 17), (0.2, -128), (0.25, 100)):
        zero = 0 if symmetric else zero
        if name == "litert" and op in ("Sigmoid", "Tanh"):
            yield step, zero, *((1 / 256, -128) if op == "Sigmoid" else (1 / 128, 0))
            continue
        y = get_real_function(op, ATTRIBUTES.get(op, {}))(step * (Q.astype(np.float64) - zero))
        y = np.clip(y[np.isfinite(y)], -20, 20)
        lo, hi = min(y.min(initial=0), 0.0), max(y.max(initial=0), 1e-3)
        if symmetric:
            yield step, zero, max(hi, -lo) / 127, 0
        else:
            yield step, zero, (hi - lo) / 255, int(np.rint(-128 - lo * 255 / (hi - lo)))


def steps(name: str, op: str, step: float, zero: int, y: Any, attrs: dict[str, Any]) -> Any:
    """The exact result as the output counts, saturated."""
    x = np.float64(np.float32(step)) * (Q.astype(np.float64) - zero)
    if op in JUMPS and not name.startswith("tpu"):
        x = x.astype(np.float32).astype(np.float64)
    real = get_real_function(op, attrs)(x)
    exact = real / float(y.scale) + int(y.zero_point)
    return np.clip(np.where(np.isnan(exact), -128, exact), -128, 127)


@pytest.mark.parametrize(("name", "op"), PAIRS)
def test_every_value_is_within_the_stated_steps_of_the_function(name: str, op: str) -> None:
    attrs = ATTRIBUTES.get(op, {})
    for step, zero, out_step, out_zero in settings(name, op):
        x, y = int8_params(step, zero), int8_params(out_step, out_zero)
        got = run_node(name, op, [(Q, x)], y, **attrs)
        error = np.abs(got - steps(name, op, step, zero, y, attrs)).max()
        assert error <= BOUNDS.get((name, op), TABLE), (step, zero, error)


OF_THEIR_OWN = {
    ("gemmlowp", "Sigmoid"),
    *(("tflite-micro", op) for op in ("Abs", "Exp", "Gelu", "LeakyRelu", "Sigmoid", "Tanh")),
}


@pytest.mark.parametrize("op", sorted(FUNCTIONS))
def test_the_functions_of_tflite_micro_and_gemmlowp_are_litert_s(op: str) -> None:
    for name in SAME_AS_LITERT:
        if (name, op) in OF_THEIR_OWN:
            continue
        assert ARITHMETICS[name][op] is ARITHMETICS["litert"][op]


@pytest.mark.parametrize("step", [0.0001, 0.004, 0.03, 0.0625, 0.2, 1.0])
@pytest.mark.parametrize("zero", [-128, -3, 127])
def test_gemmlowps_logistic_is_within_the_stated_steps(step: float, zero: int) -> None:
    y = int8_params(1 / 256, -128)
    got = run_node("gemmlowp", "Sigmoid", [(Q, int8_params(step, zero))], y)
    error = np.abs(got - steps("gemmlowp", "Sigmoid", step, zero, y, {})).max()
    assert error <= 0.5 + 2.0**-10


def test_every_row_of_a_function_has_its_function_and_its_kernels() -> None:
    assert {op for op in UNARY if op not in FUNCTIONS} == {"Clip", "Relu"}
    for name in ("litert", "tflite-micro", "gemmlowp", "tpu-mlir", "tpu-mlir-8", "fixed-point"):
        assert set(ARITHMETICS[name]) >= UNARY
    assert all(OPS[op].is_unary_function for op in FUNCTIONS)


def test_a_function_that_is_not_defined_gives_the_lowest_integer() -> None:
    for name in ("litert", "tpu-mlir"):
        for op in ("Log", "Sqrt"):
            assert (
                run_node(name, op, [(Q[:128], int8_params(0.1))], int8_params(0.1)) == -128
            ).all()
        assert (
            run_node(name, "Reciprocal", [(Q[128:129], int8_params(0.1))], int8_params(0.1)).item()
            == 127
        )


def test_a_power_of_several_exponents_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="exponent of Pow"):
        run_node(
            "litert",
            "Pow",
            [(Q, int8_params(0.1))],
            int8_params(0.1),
            exponent=np.array([1.0, 2.0]),
        )


@pytest.mark.parametrize("scales", [(0.03, 0.05, 0.02), (0.25, 0.125, 0.5), (0.01, 0.01, 0.031)])
def test_a_quotient_is_within_the_stated_steps_at_every_pair(scales: Any) -> None:
    a, b, y = int8_params(scales[0], -3), int8_params(scales[1], 20), int8_params(scales[2], 7)
    got = run_node("litert", "Div", [(Q[:, None], a), (Q[None], b)], y).astype(np.float64)
    dividend, divisor = Q[:, None].astype(np.float64) + 3, Q[None].astype(np.float64) - 20
    ratio = float(a.scale) / (float(b.scale) * float(y.scale))
    with np.errstate(all="ignore"):
        exact = np.where(divisor == 0, np.sign(dividend) * 1e9, ratio * dividend / divisor)
    stated = np.abs(exact) >= 0.5
    error = np.abs(got - np.clip(exact + 7, -128, 127))[stated]
    assert error.max() <= 0.5 + 2.0**-8


def test_a_quotient_below_one_lsb_is_what_litert_s_shift_gives() -> None:
    """Recorded from LiteRT on x86-64: shifts by 32 bits and more, and to the left."""
    a = np.array([0, 0, 1, -1, 1, -1, 2, -2, 2, 60], np.int8)
    b = np.array([100, -100, 100, 100, -100, -100, 100, 100, -100, 100], np.int8)
    got = run_node(
        "litert", "Div", [(a, int8_params(1 / 16)), (b, int8_params(1 / 8))], int8_params(1 / 32)
    )
    assert got.tolist() == [1, 1, 0, -128, -128, 0, 0, 0, 0, 10]
    a, b = np.array([[1, -1, 1, 0, 0, 100, -100], [1, 1, -1, 1, 100, 3, 3]], np.int8)
    got = run_node(
        "litert", "Div", [(a, int8_params(1.0)), (b, int8_params(1.0))], int8_params(2.0**-40)
    )
    assert got.tolist() == [127, -128, -128, 1, 1, 127, -128]


def test_a_gelu_by_tanh_is_computed_in_float32() -> None:
    """Recorded from LiteRT: 55.4999… steps, which float64 rounded once would make 55.5."""
    x, y = int8_params(0.045, -86), int8_params(0.09, -74)
    q = np.array([25], np.int8)
    assert run_node("litert", "Gelu", [(q, x)], y, approximate="tanh").tolist() == [-19]


@pytest.mark.parametrize("name", ["litert", "tpu-mlir"])
def test_a_parametric_relu_is_within_the_stated_steps(name: str) -> None:
    x, slope, y = int8_params(0.05), int8_params(0.004), int8_params(0.05)
    a = np.array([-128, -30, 0, 60, 127], np.int8)[:, None]
    got = run_node(name, "PRelu", [(Q, x), (a, slope)], y)
    real = float(x.scale) * Q.astype(np.float64)
    exact = np.where(Q >= 0, real, real * a * float(slope.scale)) / float(y.scale)
    bound = 0.75 if name == "litert" else 0.5 + 128 * 2.0**-7
    assert np.abs(got - np.clip(exact, -128, 127)).max() <= bound
