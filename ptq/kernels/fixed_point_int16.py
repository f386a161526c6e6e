"""gemmlowp's logistic function and hyperbolic tangent in int16: Q3.12 to Q0.15.

The algorithms are those of `ptq.kernels.fixed_point`, which has them in int32, with constants rounded to 16 bits.
Products are rounded to 16 bits, ties upwards. (gemmlowp, fixedpoint.h; LiteRT's optimized LOGISTIC and TANH.)

All functions take and return int64 arrays whose values fit int16.
"""

from __future__ import annotations

import numpy as np

from ptq.kernels.fixed_point import Int64, divide_by_power_of_two, rounding_half_sum

_HIGHEST, _LOWEST = 2**15 - 1, -(2**15)
_EXP_MINUS_EIGHTH = 28918  # Q0.15
_THIRD = 10923  # Q0.15
_EXP_OF_POWERS = (25520, 19875, 12055, 4435, 600, 11)  # exp(−2^k) in Q0.15 for k = −2 … 3
_48_OVER_17 = 23130  # Q2.13
_MINUS_32_OVER_17 = -15420  # Q2.13
_ONE = 1 << 13  # Q2.13


def _multiply_high(a: Int64, b: Int64 | int) -> Int64:
    """Return the high 16 bits of 2·a·b, ties upwards, at most 2^15 − 1."""
    high: Int64 = np.minimum(
        (a * np.int64(b) if isinstance(b, int) else a * b) + (1 << 14) >> 15, _HIGHEST
    )
    return high


def _saturate(x: Int64) -> Int64:
    saturated: Int64 = np.clip(x, _LOWEST, _HIGHEST)
    return saturated


def _exp_of_negative(x: Int64, integer_bits: int) -> Int64:
    """Return exp(x) in Q0.15 for x ≤ 0 with 3 or 4 integer bits; exp(0) is the largest int16."""
    lowest = 13 - integer_bits
    quarter = 1 << lowest
    within = (x & (quarter - 1)) - quarter
    value = _exp_of_last_quarter(within << integer_bits)
    left = within - x
    for bit, factor in enumerate(_EXP_OF_POWERS[: integer_bits + 2], start=lowest):
        value = np.where(left >> bit & 1, _multiply_high(value, factor), value)
    return np.where(x == 0, _HIGHEST, value)


def _exp_of_last_quarter(x: Int64) -> Int64:
    x = x + (1 << 12)
    x2 = _multiply_high(x, x)
    x3, x4 = _multiply_high(x2, x), _multiply_high(x2, x2)
    inner = _multiply_high(divide_by_power_of_two(x4, 2) + x3, _THIRD) + x2
    polynomial = x + divide_by_power_of_two(inner, 1)
    return _saturate(_EXP_MINUS_EIGHTH + _multiply_high(polynomial, _EXP_MINUS_EIGHTH))


def _two_over_one_plus(x: Int64) -> Int64:
    """Return 2 / (1 + x) in Q2.13 for x in [0, 1) of Q0.15."""
    half = rounding_half_sum(x, _HIGHEST)
    estimate = _48_OVER_17 + _multiply_high(half, _MINUS_32_OVER_17)
    for _ in range(3):
        missing = _ONE - _multiply_high(half, estimate)
        estimate = estimate + _saturate(_multiply_high(estimate, missing) << 2)
    return estimate


def logistic(x: Int64) -> Int64:
    """Return 1 / (1 + exp(−x)) in Q0.15 for x in Q3.12."""
    share = _saturate(_two_over_one_plus(_exp_of_negative(-np.abs(x), 3)) << 1)
    return np.where(x == 0, 1 << 14, np.where(x > 0, share, _HIGHEST - share))


def tanh(x: Int64) -> Int64:
    """Return the hyperbolic tangent in Q0.15 of x in Q3.12."""
    # The bits of x in Q3.12 are those of 2x in Q4.11.
    value = _saturate((_two_over_one_plus(_exp_of_negative(-np.abs(x), 4)) - _ONE) << 2)
    return np.sign(x) * value
