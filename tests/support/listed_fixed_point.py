"""gemmlowp's fixed-point functions as the text of Jacob et al. (2018) lists them."""

from __future__ import annotations

from ptq.kernels.fixed_point import INT32_MAX, INT32_MIN


def listed_high_mul(a: int, b: int) -> int:
    """SaturatingRoundingDoublingHighMul as the text lists it: a nudge by sign, division that truncates."""
    if a == b == INT32_MIN:
        return INT32_MAX
    product = a * b
    nudged = product + (1 << 30 if product >= 0 else 1 - (1 << 30))
    return nudged >> 31 if nudged >= 0 else -(-nudged >> 31)


def listed_divide(x: int, exponent: int) -> int:
    """RoundingDivideByPOT, called beside it: mask, remainder and threshold."""
    mask = (1 << exponent) - 1
    return (x >> exponent) + ((x & mask) > (mask >> 1) + (x < 0))
