"""LiteRT's elementwise operators in 8 bits, each as a table of all its values.

    Add, Sub    a' = MBQM((a − za) · 2^20, sa / 2m),  b' likewise,  m = max(sa, sb)
                q = zo + MBQM(a' ± b', 2m / (2^20 · so))                              multipliers in float64
    Mul         q = zo + MBQM((a − za)(b − zb), (sa · sb) / so)                       multiplier in float32
    Requantize  q = zo + MBQM(x − zx, sx / so)                                        QUANTIZE; float64
    Relu, Clip  the same by a float32 multiplier, clamped to zo + round(bound / so)
    LeakyRelu   x ≥ zx as Relu; below it by (sx · alpha) / so, the sign of alpha applied last
    Sigmoid     d = sx · (x − zx);  q = zo + round((1 / (1 + exp(−d))) · (1 / so))    LOGISTIC; float32
    Tanh        the same with tanh

MBQM is gemmlowp's product with two roundings; round takes ties away from zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.core.rounding import round_half_away
from ptq.core.types import FloatArray, IntArray, QuantParams
from ptq.executor.arithmetics.node_site import (
    Kernel,
    KernelMaker,
    Site,
    compute_scale_ratio,
    get_activation_qparams,
    get_output_bounds,
    get_output_qparams,
    require_input,
)
from ptq.kernels.c_functions import get_c_function
from ptq.kernels.fixed_point import Int64, rescale
from ptq.kernels.lookup import Function, PairFunction, PairTable, lookup, tabulate

_HEADROOM = 20
UnaryBuilder = Callable[[Site, Function], Kernel]
PairBuilder = Callable[[Site, PairFunction], Kernel]


def describe_qparams(params: QuantParams | None) -> str:
    """Return scale and zero point in words, for a message."""
    if params is None:
        return "none"
    return f"scale {params.scale}, zero point {params.zero_point}"


def require_same_scale(make: KernelMaker, *, all_inputs: bool = False) -> KernelMaker:
    """Return the maker of an operator whose input must have the output's parameters (LiteRT's Prepare).

    Args:
        make: The maker.
        all_inputs: Every quantized input must have them, not only input 0.
    """

    def checked(site: Site) -> Kernel:
        for params in site.inputs if all_inputs else site.inputs[:1]:
            if params != site.outputs[0] and not (all_inputs and params is None):
                raise UnsupportedError(
                    f"{site.op} in LiteRT needs input and output with one scale and zero point; "
                    f"the input has {describe_qparams(params)}, the output {describe_qparams(site.outputs[0])}"
                )
        kernel = make(site)
        if site.clamp is None:
            return kernel
        lo, hi = get_output_bounds(site)
        return lambda inputs: np.clip(kernel(inputs), lo, hi)

    return checked


def saturate_to_output(site: Site, value: NDArray[Any]) -> IntArray:
    """Add the output's zero point and clamp to the output's bounds."""
    y = get_output_qparams(site)
    lo, hi = get_output_bounds(site)
    q: IntArray = np.clip(value + int(y.zero_point), lo, hi).astype(y.qtype.dtype)
    return q


def make_unary_table_kernel(site: Site, function: Function) -> Kernel:
    """Return the kernel of a function of x − zx, to which the output's zero point is added, as a table."""
    x = get_activation_qparams(site)
    table = tabulate(lambda q: saturate_to_output(site, function(q - int(x.zero_point))), x.qtype)
    return lambda inputs: lookup(table, require_input(site, inputs, 0))


def make_binary_table_kernel(site: Site, function: PairFunction) -> Kernel:
    """Return the kernel of a function of a − za and b − zb, plus the output's zero point, as a table."""
    a, b = get_activation_qparams(site, 0), get_activation_qparams(site, 1)

    def centred(qa: Int64, qb: Int64) -> IntArray:
        return saturate_to_output(site, function(qa - int(a.zero_point), qb - int(b.zero_point)))

    table = PairTable(centred, a.qtype, b.qtype)
    return lambda inputs: table(require_input(site, inputs, 0), require_input(site, inputs, 1))


def list_elementwise_makers(
    headroom: int, unary: UnaryBuilder, pair: PairBuilder
) -> Mapping[str, KernelMaker]:
    """Return the makers of sums, products, QUANTIZE and activations, whatever the width of the integers.

    Args:
        headroom: Bits by which the terms of a sum are shifted to the left.
        unary: Builds the kernel of a function of one input.
        pair: Builds the kernel of a function of two inputs.
    """

    def mul(site: Site) -> Kernel:
        a, b = get_activation_qparams(site, 0), get_activation_qparams(site, 1)
        multiplier = (a.scale * b.scale) / get_output_qparams(site).scale
        return pair(site, lambda qa, qb: rescale(qa * qb, multiplier))

    def requantize(site: Site) -> Kernel:
        ratio = compute_scale_ratio(site)
        return unary(site, lambda q: rescale(q, ratio))

    return {
        **list_activation_makers(_compute_float32_scale_ratio, unary),
        "Add": lambda site: pair(site, _make_sum_function(site, 1, headroom)),
        "Mul": mul,
        "Requantize": requantize,
        "Sub": lambda site: pair(site, _make_sum_function(site, -1, headroom)),
    }


def _make_sum_function(site: Site, sign: int, headroom: int) -> PairFunction:
    """Return a + b or a − b in the output's scale."""
    a, b = (
        float(get_activation_qparams(site, 0).scale),
        float(get_activation_qparams(site, 1).scale),
    )
    twice = 2.0 * max(a, b)
    output_factor = twice / (2.0**headroom * float(get_output_qparams(site).scale))

    def total(qa: Int64, qb: Int64) -> Int64:
        left = rescale(qa << headroom, a / twice)
        right = rescale(qb << headroom, b / twice)
        return rescale(left + sign * right, output_factor)

    return total


def compute_activation_bounds(
    y: QuantParams, lo: float | None, hi: float | None
) -> tuple[int, int]:
    """Return the real bounds of a fused activation as integers: zo + round(bound / so), within the type."""
    low, high = y.qtype.lo, y.qtype.hi
    if lo is not None:
        low = max(low, _quantize_bound(y, lo))
    if hi is not None:
        high = min(high, _quantize_bound(y, hi))
    return low, high


def _quantize_bound(y: QuantParams, real: float) -> int:
    """The integer of a bound; one beyond the type, as of infinity, is the type's own."""
    lo, hi = (end - int(y.zero_point) for end in (y.qtype.lo, y.qtype.hi))
    with np.errstate(over="ignore"):
        steps = np.clip(np.float32(real) / y.scale, lo, hi)
    return int(y.zero_point) + int(round_half_away(np.asarray(steps)))


def _compute_float32_scale_ratio(site: Site) -> FloatArray:
    ratio: FloatArray = get_activation_qparams(site).scale / get_output_qparams(site).scale
    return ratio


def list_activation_makers(
    ratio: Callable[[Site], float | FloatArray], unary: UnaryBuilder = make_unary_table_kernel
) -> Mapping[str, KernelMaker]:
    """Return the makers of Clip, LeakyRelu and Relu.

    Args:
        ratio: Computes the ratio sx / so.
        unary: Builds the kernel of a function of one input.
    """

    def clamp(site: Site, lo: float | None, hi: float | None) -> Kernel:
        return unary(site, _make_clamp_function(site, ratio(site), lo, hi))

    return {
        "Clip": lambda site: clamp(site, site.attrs.get("min"), site.attrs.get("max")),
        "LeakyRelu": lambda site: unary(site, _make_leaky_relu_function(site, ratio(site))),
        "Relu": lambda site: clamp(site, 0.0, None),
    }


def _make_clamp_function(
    site: Site, ratio: float | FloatArray, lo: float | None, hi: float | None
) -> Function:
    """Return RELU or its variant: rescaled by the ratio sx / so, clamped to the real bounds."""
    y = get_output_qparams(site)
    low, high = compute_activation_bounds(y, lo, hi)
    offset = int(y.zero_point)
    return lambda q: np.clip(rescale(q, ratio), low - offset, high - offset)


def _make_leaky_relu_function(site: Site, identity: float | FloatArray) -> Function:
    """Return LEAKY_RELU; ``identity`` is the ratio sx / so for x above zero."""
    alpha = np.float32(site.attrs.get("alpha", 0.01))
    below = (get_activation_qparams(site).scale * alpha) / get_output_qparams(site).scale

    def function(q: Int64) -> Int64:
        negative = np.int64(np.sign(below)) * rescale(q, np.abs(below))
        return np.where(q >= 0, rescale(q, identity), negative)

    return function


def _compute_logistic(x: FloatArray) -> FloatArray:
    """Return 1 / (1 + expf(−x)) in float32; the rounded float64 exp equals the C library's expf."""
    # Below −88.7 the exponential is infinite in float32, and the result is zero.
    with np.errstate(over="ignore"):
        exponential = np.exp(-x.astype(np.float64)).astype(np.float32)
    value: FloatArray = np.float32(1) / (np.float32(1) + exponential)
    return value


def _make_fixed_scale_table_maker(
    function: Callable[[FloatArray], FloatArray], scale: float, lowest: bool
) -> KernelMaker:
    """Return the maker of a table of a float function whose output scale LiteRT's specification fixes."""

    def make(site: Site) -> Kernel:
        x, y = get_activation_qparams(site), get_output_qparams(site)
        require_output(site, scale, y.qtype.lo if lowest else (y.qtype.lo + y.qtype.hi + 1) // 2)
        inverse = np.float32(1) / y.scale

        def rounded(q: Int64) -> NDArray[Any]:
            return round_half_away(function(x.scale * q.astype(np.float32)) * inverse)

        return make_unary_table_kernel(site, rounded)

    return make


def require_output(site: Site, scale: float, zero_point: int) -> None:
    """Check that an output has the parameters that LiteRT's specification fixes.

    Raises:
        UnsupportedError: It has other parameters.
    """
    y = get_output_qparams(site)
    if float(y.scale) != scale or int(y.zero_point) != zero_point:
        raise UnsupportedError(
            f"{site.op} in LiteRT needs an output of scale {scale} and zero point {zero_point}; "
            f"it has {describe_qparams(y)}"
        )


KERNELS: Mapping[str, KernelMaker] = {
    **list_elementwise_makers(_HEADROOM, make_unary_table_kernel, make_binary_table_kernel),
    "Sigmoid": _make_fixed_scale_table_maker(_compute_logistic, 1 / 256, lowest=True),
    "Tanh": _make_fixed_scale_table_maker(
        lambda x: get_c_function("tanhf")(x), 1 / 128, lowest=False
    ),
}
