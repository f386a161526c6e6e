"""How does integer-only hardware multiply by a real number?

With a 31-bit multiplier m in [2^30, 2^31) and a shift s:  M ≈ m · 2^(s − 31), and x · M in two roundings,

    h = floor(x · 2^max(s, 0) · m / 2^31 + 1/2)         high half of the doubled product, ties upwards
    y = h / 2^max(−s, 0)                                rounded, ties away from zero

(Jacob et al. 2018, section 2.2; gemmlowp; LiteRT without TFLITE_SINGLE_ROUNDING.) All functions take and give
int64 arrays whose values fit int32, and broadcast.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]

INT32_MAX = 2**31 - 1
INT32_MIN = -(2**31)


def doubling_high_mul(a: Int64, b: Int64 | int) -> Int64:
    """High 32 bits of 2·a·b, ties towards +∞; INT32_MIN · INT32_MIN saturates.

    Bound: 1/2 of a·b / 2^31. (gemmlowp, fixedpoint.h, SaturatingRoundingDoublingHighMul.)

    One addition serves both signs: the truncated division of a negative product with its own, smaller nudge
    1 − 2^30 equals the floor of the product with the nudge 2^30.
    """
    high = (a * np.int64(b) if isinstance(b, int) else a * b) + (1 << 30)
    high >>= 31
    saturated: Int64 = np.minimum(high, INT32_MAX)
    return saturated


def divide_by_power_of_two(x: Int64, exponent: Int64 | int) -> Int64:
    """X / 2^exponent, ties away from zero; exponent from 0 to 62, |x| at most 2^62.

    Bound: 1/2. (gemmlowp, fixedpoint.h, RoundingDivideByPOT.)
    """
    power = np.asarray(exponent, np.int64)
    half = (np.int64(1) << power) >> 1
    # x >> 63 takes one from a negative x, so that its ties fall to the lower integer.
    away = np.where(power > 0, x >> 63, 0)
    return (x + half + away) >> power


def multiply_by_power_of_two(x: Int64, exponent: int) -> Int64:
    """X · 2^exponent, saturated to int32; ties of a negative exponent away from zero; exponent up to 31.

    Bound: 1/2, exact for an exponent of 0 and more. (gemmlowp, fixedpoint.h, SaturatingRoundingMultiplyByPOT.)
    """
    if exponent <= 0:
        return divide_by_power_of_two(x, -exponent)
    saturated: Int64 = np.clip(x << exponent, INT32_MIN, INT32_MAX)
    return saturated


def quantize_multiplier(real: float | NDArray[Any]) -> tuple[Int64, Int64]:
    """Multiplier m and shift s of non-negative reals: real ≈ m · 2^(s − 31).

    Zero gives (0, 0), and so does what is below 2^-32. Bound: 2^-31 relative, half of m's last bit.
    (Jacob et al. 2018, eq. 6; TensorFlow Lite, QuantizeMultiplier.)
    """
    fraction, exponent = np.frexp(np.asarray(real, np.float64))
    multiplier = np.floor(fraction * 2.0**31 + 0.5).astype(np.int64)
    shift = exponent.astype(np.int64)
    carried = multiplier == 1 << 31
    multiplier = np.where(carried, 1 << 30, multiplier)
    shift = shift + carried
    flushed = (multiplier == 0) | (shift < -31)
    return np.where(flushed, 0, multiplier), np.where(flushed, 0, shift)


def multiply(x: Int64, multiplier: Int64 | int, shift: Int64 | int) -> Int64:
    """X · multiplier · 2^(shift − 31) by gemmlowp's two roundings; the left shift wraps in int32.

    Bound: 1/2 for a shift of 0 and more, 1/2 + 2^(shift − 1) below: 3/4 at most.
    (TensorFlow Lite, MultiplyByQuantizedMultiplier without TFLITE_SINGLE_ROUNDING.)
    """
    left, right = np.maximum(shift, 0), np.maximum(-np.asarray(shift, np.int64), 0)
    shifted = x << left
    if np.any(left):
        shifted = shifted.astype(np.int32).astype(np.int64)
    return divide_by_power_of_two(doubling_high_mul(shifted, multiplier), right)


def rescale(x: Int64, real: float | NDArray[Any]) -> Int64:
    """X · real as ``multiply`` does it with the quantized multiplier of ``real``.

    Bound: that of ``multiply`` and 2^-31 · |x · real|.
    """
    return multiply(x, *quantize_multiplier(real))
