"""ONNX Runtime's elementwise operators in 8 bits, each as a table of all its values.

One operand:   q = QuantizeLinear(f(sx · (x − zx)))                   all in float32
QLinearAdd:    rA = sa/sy, rB = sb/sy, F = zy − fma(rA, za, rB·zb);    q = rne(fma(a, rA, fma(b, rB, F)))
QLinearMul:    r = (sa·sb)/sy;    q = rne((a − za)(b − zb) · r + zy)
Concat, Where: an input whose parameters are not the output's passes through QuantizeLinear(sx · (x − zx))

QLinearAdd and QLinearMul add the zero point before they round, so a tie goes to the even *integer of the output*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import FloatArray, IntArray, QuantParams
from ptq.executor.arithmetics import data_movement
from ptq.executor.arithmetics.min_max import COMPARISONS, BinaryFunction
from ptq.executor.arithmetics.node_site import (
    Inputs,
    Kernel,
    KernelMaker,
    Site,
    get_activation_qparams,
    get_output_bounds,
    get_output_qparams,
    require_input,
)
from ptq.kernels.float32 import fma
from ptq.kernels.lookup import PairTable, lookup, tabulate

RealFunction = Callable[[FloatArray], FloatArray]

# Coefficients of Eigen's rational approximation of the logistic function, as in MLAS: the odd numerator from the 9th
# power down to the 1st, the even denominator from the 10th power down to the constant.
_NUMERATOR = (
    4.37031012579801e-11,
    1.15627324459942e-07,
    6.08574864600143e-05,
    8.51377133304701e-03,
    2.48287947061529e-01,
)
_DENOMINATOR = (
    6.10247389755681e-13,
    5.76102136993427e-09,
    6.29106785017040e-06,
    1.70198817374094e-03,
    1.16817656904453e-01,
    9.93151921023180e-01,
)


def compute_logistic(x: FloatArray) -> FloatArray:
    """Return 1 / (1 + exp(−x)) as MLAS approximates it with FMA: p(x²)·x / q(x²) + 1/2 for |x| ≤ 18."""
    x = np.clip(x, np.float32(-18), np.float32(18))
    square = x * x
    ratio = _apply_horner(square, _NUMERATOR) * x / _apply_horner(square, _DENOMINATOR)
    value: FloatArray = np.clip(ratio + np.float32(0.5), np.float32(0), np.float32(1))
    return value


def _apply_horner(x: FloatArray, coefficients: tuple[float, ...]) -> FloatArray:
    value = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value = fma(value, x, np.float32(coefficient))
    return value


def round_and_clamp(site: Site, value: NDArray[Any]) -> IntArray:
    """Round half to even a value that already contains the zero point, and clamp it.

    From 2^31 on it is the lowest integer: x86's conversion to int32 gives the lowest one there.
    """
    lo, hi = get_output_bounds(site)
    within = np.where(value >= 2.0**31, lo, np.clip(value, lo, hi))
    q: IntArray = np.rint(within).astype(get_output_qparams(site).qtype.dtype)
    return q


def build_function_table(site: Site, function: RealFunction, index: int = 0) -> IntArray:
    """Return the table of dequantize, function, quantize for the 256 values of an input."""
    x, y = get_activation_qparams(site, index), get_output_qparams(site)
    lo, hi = get_output_bounds(site)
    table = y.quantize(tabulate(lambda q: function(x.dequantize(q)), x.qtype))
    return np.clip(table, lo, hi)


def _make_unary_table_kernel(site: Site, function: RealFunction) -> Kernel:
    table = build_function_table(site, function)
    return lambda inputs: lookup(table, require_input(site, inputs, 0))


def requantize(site: Site) -> Kernel:
    """Return the kernel of DequantizeLinear, then QuantizeLinear with the output's parameters."""
    return _make_unary_table_kernel(site, lambda real: real)


def _make_relu(site: Site) -> Kernel:
    return _make_unary_table_kernel(site, lambda real: np.maximum(real, np.float32(0)))


def _make_clip(site: Site) -> Kernel:
    lo, hi = site.attrs.get("min"), site.attrs.get("max")
    low = np.float32(-np.inf if lo is None else lo)
    high = np.float32(np.inf if hi is None else hi)
    return _make_unary_table_kernel(site, lambda real: np.minimum(np.maximum(real, low), high))


def _make_leaky_relu(site: Site) -> Kernel:
    alpha = np.float32(site.attrs.get("alpha", 0.01))
    return _make_unary_table_kernel(site, lambda real: np.where(real >= 0, real, alpha * real))


def _make_sigmoid(site: Site) -> Kernel:
    return _make_unary_table_kernel(site, compute_logistic)


def _is_first_scalar(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    """Return whether ONNX Runtime treats the first operand as the scalar of every span of the two shapes.

    A span starts at the innermost axis that is not 1 in both shapes, or at the outermost axis that both have. There
    the first operand has size 1. Next to an operand without axes, the innermost axis of the first counts.
    """
    if not first or not second:
        return not first or first[-1] == 1
    common = list(zip(reversed(first), reversed(second), strict=False))
    return next((a == 1 for a, b in common if (a, b) != (1, 1)), True)


def _make_add(site: Site) -> Kernel:
    """QLinearAdd, which exchanges its operands if the first is the scalar of a broadcast."""
    a, b = get_activation_qparams(site, 0), get_activation_qparams(site, 1)
    get_output_qparams(site)

    @cache
    def table(exchanged: bool) -> PairTable:
        return _make_sum_table(site, b, a) if exchanged else _make_sum_table(site, a, b)

    def kernel(inputs: Inputs) -> NDArray[Any]:
        qa, qb = require_input(site, inputs, 0), require_input(site, inputs, 1)
        exchanged = _is_first_scalar(qa.shape, qb.shape)
        pair = (qb, qa) if exchanged else (qa, qb)
        return table(exchanged)(*pair)

    return kernel


def _make_sum_table(site: Site, a: QuantParams, b: QuantParams) -> PairTable:
    y = get_output_qparams(site)
    ratio_a, ratio_b = a.scale / y.scale, b.scale / y.scale
    both = fma(ratio_a, a.zero_point, ratio_b * b.zero_point.astype(np.float32))
    fixed = y.zero_point.astype(np.float32) - both

    def total(qa: NDArray[np.int64], qb: NDArray[np.int64]) -> IntArray:
        return round_and_clamp(site, fma(qa, ratio_a, fma(qb, ratio_b, fixed)))

    return PairTable(total, a.qtype, b.qtype)


def _make_mul(site: Site) -> Kernel:
    a, b, y = (
        get_activation_qparams(site, 0),
        get_activation_qparams(site, 1),
        get_output_qparams(site),
    )
    ratio = (a.scale * b.scale) / y.scale
    offset = y.zero_point.astype(np.float32)

    def scaled(qa: NDArray[np.int64], qb: NDArray[np.int64]) -> IntArray:
        exact = ((qa - a.zero_point) * (qb - b.zero_point)).astype(np.float32)
        return round_and_clamp(site, exact * ratio + offset)

    table = PairTable(scaled, a.qtype, b.qtype)
    return lambda inputs: table(require_input(site, inputs, 0), require_input(site, inputs, 1))


def _with_requantized_inputs(site: Site, *, maker: KernelMaker) -> Kernel:
    """Inputs whose parameters are not the output's are dequantized and quantized first."""
    kernel = maker(site)
    if site.outputs[0] is None:
        return kernel
    tables = [
        None
        if x in (None, site.outputs[0])
        else build_function_table(site, lambda real: real, index)
        for index, x in enumerate(site.inputs)
    ]

    def converted(inputs: Inputs) -> NDArray[Any]:
        arrays = [require_input(site, inputs, index) for index in range(len(tables))]
        return kernel(
            [
                array if table is None else lookup(table, array)
                for table, array in zip(tables, arrays, strict=True)
            ]
        )

    return converted


def _make_comparison_kernel(site: Site, *, comparison: BinaryFunction) -> Kernel:
    """A comparison of dequantized values; ONNX Runtime has no integer kernel for it."""
    a, b = get_activation_qparams(site, 0), get_activation_qparams(site, 1)

    def compare(qa: NDArray[np.int64], qb: NDArray[np.int64]) -> NDArray[Any]:
        return comparison(a.dequantize(qa), b.dequantize(qb))

    table = PairTable(compare, a.qtype, b.qtype)
    return lambda inputs: table(require_input(site, inputs, 0), require_input(site, inputs, 1))


KERNELS: Mapping[str, KernelMaker] = {
    **{
        op: partial(_with_requantized_inputs, maker=maker)
        for op, maker in data_movement.MULTI_INPUT_OPS.items()
    },
    **{op: partial(_make_comparison_kernel, comparison=how) for op, how in COMPARISONS.items()},
    "Add": _make_add,
    "Clip": _make_clip,
    "LeakyRelu": _make_leaky_relu,
    "Mul": _make_mul,
    "Relu": _make_relu,
    "Requantize": requantize,
    "Sigmoid": _make_sigmoid,
}
