"""How is exp(x) / Σ exp computed in 32-bit fixed point? gemmlowp's functions, as LiteRT's Softmax calls them.

Qa.b has a integer and b fractional bits. exp on [−1/4, 0) is a Taylor polynomial about −1/8; what is left of x is
a sum of powers of two, whose exponentials are multiplied on. 1/(1 + x) takes three Newton steps from the line
48/17 − 32/17 · (1 + x)/2. (gemmlowp, fixedpoint.h; TensorFlow Lite, softmax.h.)
"""

from __future__ import annotations

import numpy as np

from ptq.kernels.fixedpoint import (
    INT32_MAX,
    Int64,
    divide_by_power_of_two,
    doubling_high_mul,
    multiply_by_power_of_two,
)

_EXP_MINUS_EIGHTH = 1895147668  # Q0.31
_THIRD = 715827883  # Q0.31
# exp(−2^k) in Q0.31 for k = −2 … 4.
_EXP_OF_POWERS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
_48_OVER_17 = 1515870810  # Q2.29
_MINUS_32_OVER_17 = -1010580540  # Q2.29
_ONE = 1 << 29  # Q2.29


def exp_of_negative(x: Int64, integer_bits: int = 5) -> Int64:
    """exp(x) in Q0.31 for x ≤ 0 in Q5.26, or with fewer integer bits; exp(0) is the largest int32.

    Bound: 2^-22 absolute. (gemmlowp, fixedpoint.h, exp_on_negative_values.)
    """
    lowest = 29 - integer_bits  # the bit that counts quarters
    quarter = 1 << lowest
    within = (x & (quarter - 1)) - quarter
    value = _exp_of_last_quarter(within << integer_bits)
    left = within - x
    for bit, factor in enumerate(_EXP_OF_POWERS[: integer_bits + 2], start=lowest):
        value = np.where(left >> bit & 1, doubling_high_mul(value, factor), value)
    return np.where(x == 0, INT32_MAX, value)


def _exp_of_last_quarter(x: Int64) -> Int64:
    """exp(x) in Q0.31 for −1/4 ≤ x < 0: degree 4 about −1/8, off by e^(−1/8) · 8^-5 / 5! = 2^-22.1."""
    x = x + (1 << 28)
    x2 = doubling_high_mul(x, x)
    x3 = doubling_high_mul(x2, x)
    x4 = doubling_high_mul(x2, x2)
    inner = doubling_high_mul(divide_by_power_of_two(x4, 2) + x3, _THIRD) + x2
    polynomial = x + divide_by_power_of_two(inner, 1)
    return _EXP_MINUS_EIGHTH + doubling_high_mul(polynomial, _EXP_MINUS_EIGHTH)


def rounding_half_sum(a: Int64, b: Int64 | int) -> Int64:
    """(a + b) / 2, ties away from zero."""
    total = a + b
    return (total + (total >= 0)) >> 1


def one_over_one_plus(x: Int64) -> Int64:
    """1 / (1 + x) in Q0.31 for x in [0, 1) of Q0.31.

    Bound: 2^-27 absolute. (gemmlowp, fixedpoint.h, one_over_one_plus_x_for_x_in_0_1.)
    """
    return multiply_by_power_of_two(_two_over_one_plus(x), 1)


def one_minus_over_one_plus(x: Int64) -> Int64:
    """(1 − x) / (1 + x) = 2 / (1 + x) − 1 in Q0.31 for x in [0, 1) of Q0.31.

    Bound: 2^-26 absolute. (gemmlowp, fixedpoint.h, one_minus_x_over_one_plus_x_for_x_in_0_1.)
    """
    return multiply_by_power_of_two(_two_over_one_plus(x) - _ONE, 2)


def _two_over_one_plus(x: Int64) -> Int64:
    """2 / (1 + x) in Q2.29, the reciprocal of (1 + x) / 2."""
    half = rounding_half_sum(x, INT32_MAX)
    estimate = _48_OVER_17 + doubling_high_mul(half, _MINUS_32_OVER_17)
    for _ in range(3):
        missing = _ONE - doubling_high_mul(half, estimate)
        estimate = estimate + multiply_by_power_of_two(doubling_high_mul(estimate, missing), 2)
    return estimate


def leading_zeros(x: Int64) -> Int64:
    """Leading zero bits of positive x as 32-bit integers."""
    # frexp's exponent is the bit length, exact for integers below 2^53.
    return 32 - np.frexp(x.astype(np.float64))[1].astype(np.int64)


def reciprocal(x: Int64, integer_bits: int) -> tuple[Int64, Int64]:
    """1 / x of a positive fixed-point x, as a Q0.31 value and the bits over 1 that x has.

    Bound: 2^-26 relative. (TensorFlow Lite, GetReciprocal.)
    """
    headroom = leading_zeros(x)
    scaled = (x << headroom) - (1 << 31)
    return one_over_one_plus(scaled), integer_bits - headroom
