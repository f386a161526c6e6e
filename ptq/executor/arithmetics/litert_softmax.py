"""LiteRT's Softmax and LogSoftmax in 8 bits, in fixed point.

    d = q − max(q);  x = SRDHM(d · 2^s, m) in Q5.26 with (m, s) = QM(beta · sx · 2^26)
    e = exp(x) in Q0.31, 0 where x would exceed Q5.26;  Σ in Q12.19
    Softmax     q = e / Σ · 256 − 128
    LogSoftmax  q = (x − log Σ) · 16 + 127

The reference kernel aborts if Σ reaches 512. Here that output is the lowest integer, as in LiteRT's optimized
kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.executor.arithmetics.legacy_softmax import extend_to_trailing_axes
from ptq.executor.arithmetics.litert_elementwise import require_output
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
from ptq.kernels.fixed_point import (
    INT32_MAX,
    INT32_MIN,
    Int64,
    divide_by_power_of_two,
    doubling_high_mul,
    exp_of_negative,
    multiply,
    quantize_multiplier,
    reciprocal,
)
from ptq.kernels.fixed_point_log import log_of_one_and_more

_SUM_BITS = 12
_INPUT_BITS = 5


class DifferenceScaling:
    """Conversion of differences of the input's integers to Q5.26, and the least difference that fits."""

    def __init__(self, scale: float, beta: float) -> None:
        real = min(beta * scale * 2.0 ** (31 - _INPUT_BITS), float(INT32_MAX))
        multiplier, shift = quantize_multiplier(real)
        self.multiplier, self.shift = int(multiplier), int(shift)
        if self.shift < 0:
            raise UnsupportedError(f"Softmax in LiteRT cannot represent an input scale of {scale}")
        radius = ((1 << _INPUT_BITS) - 1) << (31 - _INPUT_BITS)
        self.min_difference = -(radius >> self.shift)

    def __call__(self, difference: Int64) -> Int64:
        """Return differences from ``min_difference`` to 0 in Q5.26."""
        return doubling_high_mul(difference << self.shift, self.multiplier)


def compute_exp_of_differences(scaling: DifferenceScaling, difference: Int64) -> Int64:
    """Return exp of each difference in Q0.31, 0 below ``min_difference``."""
    inside = np.maximum(difference, scaling.min_difference)
    return np.where(difference >= scaling.min_difference, exp_of_negative(scaling(inside)), 0)


def _make_softmax(site: Site) -> Kernel:
    x, y = get_activation_qparams(site), get_output_qparams(site)
    require_output(site, 1 / 256, y.qtype.lo)
    lo, hi = get_output_bounds(site)
    axis = int(site.attrs.get("axis", -1))
    scaling = DifferenceScaling(float(x.scale), float(site.attrs.get("beta", 1.0)))
    # A difference of 8-bit integers has 256 values: index −difference.
    table = compute_exp_of_differences(scaling, -np.arange(256, dtype=np.int64))
    summands = divide_by_power_of_two(table, _SUM_BITS)

    def kernel(inputs: Inputs) -> NDArray[Any]:
        q = require_input(site, inputs, 0).astype(np.int16)
        below = q.max(axis=axis, keepdims=True, initial=np.iinfo(q.dtype).min) - q
        # From 4096 elements on the sum can exceed int32; long before, every quotient is below half an LSB.
        total = np.minimum(summands[below].sum(axis=axis, keepdims=True), INT32_MAX)
        inverse, over_one = reciprocal(total, _SUM_BITS)
        exponent = np.minimum(over_one + 31 - 8, 62)
        share = divide_by_power_of_two(doubling_high_mul(table[below], inverse), exponent)
        return np.clip(share + y.qtype.lo, lo, hi).astype(y.qtype.dtype)

    return kernel


def _make_log_softmax(site: Site) -> Kernel:
    x, y = get_activation_qparams(site), get_output_qparams(site)
    require_output(site, 16 / 256, y.qtype.hi)
    lo, hi = get_output_bounds(site)
    axis = int(site.attrs.get("axis", -1))
    scaling = DifferenceScaling(float(x.scale), 1.0)
    differences = -np.arange(256, dtype=np.int64)
    summands = divide_by_power_of_two(compute_exp_of_differences(scaling, differences), _SUM_BITS)
    scaled = scaling(np.maximum(differences, scaling.min_difference))
    back = quantize_multiplier(2.0 ** (31 - scaling.shift) / scaling.multiplier)

    def kernel(inputs: Inputs) -> NDArray[Any]:
        q = require_input(site, inputs, 0).astype(np.int16)
        below = q.max(axis=axis, keepdims=True, initial=np.iinfo(q.dtype).min) - q
        total = np.minimum(summands[below].sum(axis=axis, keepdims=True), INT32_MAX)
        logarithm = log_of_one_and_more(total)
        # Differences down to this one keep the logarithm of the quotient within Q5.26.
        least = np.maximum(scaling.min_difference - 1, multiply(logarithm + INT32_MIN, *back))
        share = divide_by_power_of_two(scaled[below] - logarithm, 31 - _INPUT_BITS - 4)
        held = np.where(-below > least, np.clip(share + y.qtype.hi, lo, hi), lo)
        return held.astype(y.qtype.dtype)

    return kernel


KERNELS: Mapping[str, KernelMaker] = {
    "LogSoftmax": extend_to_trailing_axes(_make_log_softmax),
    "Softmax": extend_to_trailing_axes(_make_softmax),
}
