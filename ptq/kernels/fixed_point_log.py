"""Logarithm of x ≥ 1 in 32-bit fixed point, as LiteRT's LogSoftmax computes it.

log(x) = k·log 2 + log(r / c) with c = 2^(−1/4), r near c, and k an integer or half-integer, corrected by a quarter.
There are two candidates for r and k: x normalized by its leading zeros, and x·sqrt(1/2) normalized by its own. With
q = 2(r − c) and p = (r + c)/2, log(r / c) is a rational function; its denominator is inverted by 1/(1 + x).
(TensorFlow Lite, log_x_for_x_greater_than_or_equal_to_1.)
"""

from __future__ import annotations

import numpy as np

from ptq.kernels.fixed_point import (
    INT32_MAX,
    INT32_MIN,
    ROOT_OF_HALF,
    Int64,
    divide_by_power_of_two,
    doubling_high_mul,
    leading_zeros,
    one_over_one_plus,
    rounding_half_sum,
)

_INPUT_BITS = 12
_OUTPUT_BITS = 5

# All Q0.31.
_LOG_2 = 1488522236
_FOURTH_ROOT_OF_HALF = 1805811301
_QUARTER = 536870912
_ALPHA_N = 117049297
_ALPHA_D = 127690142
_ALPHA_I = 1057819769
_ALPHA_F = 638450708


def log_of_one_and_more(x: Int64) -> Int64:
    """Return log(x) in Q5.26 for x ≥ 1 in Q12.19.

    Error bound: 2^-20 absolute. (TensorFlow Lite, log_x_for_x_greater_than_or_equal_to_1_impl.)
    """
    quarter = _QUARTER >> _OUTPUT_BITS
    headroom = leading_zeros(x)
    first = _saturate(doubling_high_mul(x << (headroom - 1), ROOT_OF_HALF) << 1)
    first_power = _saturate(_to_output_format(_INPUT_BITS - headroom) + quarter)

    lowered = doubling_high_mul(x, ROOT_OF_HALF)
    lowered_headroom = leading_zeros(lowered) - 1
    second = _saturate(x << lowered_headroom)
    second_power = _saturate(_to_output_format(_INPUT_BITS - lowered_headroom) - quarter)

    r, power = np.minimum(first, second), np.maximum(first_power, second_power)
    p = rounding_half_sum(r, _FOURTH_ROOT_OF_HALF)
    q = 2 * (r - _FOURTH_ROOT_OF_HALF)
    square = doubling_high_mul(q, q)
    numerator = doubling_high_mul(q, r) + doubling_high_mul(doubling_high_mul(q, square), _ALPHA_N)
    bracket = _ALPHA_I + q + doubling_high_mul(square, _ALPHA_D)
    denominator = doubling_high_mul(p, bracket) + doubling_high_mul(q, _ALPHA_F)
    ratio = doubling_high_mul(numerator, one_over_one_plus(denominator))
    return doubling_high_mul(power, _LOG_2) + divide_by_power_of_two(ratio, _OUTPUT_BITS)


def _to_output_format(whole: Int64) -> Int64:
    return _saturate(whole << (31 - _OUTPUT_BITS))


def _saturate(x: Int64) -> Int64:
    return np.clip(x, INT32_MIN, INT32_MAX)
