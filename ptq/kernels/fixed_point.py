"""Fixed-point arithmetic of gemmlowp and TensorFlow Lite: real factors, exp, 1/x, 1/√x, logistic, tanh in int32.

With a 31-bit multiplier m in [2^30, 2^31) and a shift s:  M ≈ m · 2^(s − 31), and x · M in two roundings,

    h = floor(x · 2^max(s, 0) · m / 2^31 + 1/2)         high half of the doubled product, ties upwards
    y = h / 2^max(−s, 0)                                rounded, ties away from zero

(Jacob et al. 2018, section 2.2; gemmlowp; LiteRT without TFLITE_SINGLE_ROUNDING.)

Qa.b has a integer bits and b fractional bits. exp on [−1/4, 0) is a Taylor polynomial about −1/8. The rest of x is a
sum of powers of two, and the result is multiplied by their exponentials. 1/(1 + x) takes three Newton steps from the
line 48/17 − 32/17 · (1 + x)/2. With e = exp(−|x|) the logistic function of |x| is 1/(1 + e), and the hyperbolic
tangent is (1 − e²)/(1 + e²). For 1/√x, x is scaled by a power of four into [2^27, 2^29). Five Newton steps
y ← y · (3 − x·y²)/2 from y = 1 give it in Q3.28. (gemmlowp, fixedpoint.h; TensorFlow Lite.)

All functions take integers whose values fit int32, compute in int64, return int64 arrays, and broadcast.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]

INT16_MAX = 2**15 - 1
INT32_MAX = 2**31 - 1
INT32_MIN = -(2**31)
_EXP_MINUS_EIGHTH = 1895147668  # Q0.31
_THIRD = 715827883  # Q0.31
# exp(−2^k) in Q0.31 for k = −2 … 4.
_EXP_OF_POWERS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
_48_OVER_17 = 1515870810  # Q2.29
_MINUS_32_OVER_17 = -1010580540  # Q2.29
_ONE = 1 << 29  # Q2.29
_ONE_AND_A_HALF = (1 << 28) + (1 << 27)  # Q3.28
ROOT_OF_HALF = 1518500250  # Q0.31


def doubling_high_mul(a: Int64, b: Int64 | int) -> Int64:
    """Return the high 32 bits of 2·a·b, ties towards +∞; INT32_MIN · INT32_MIN saturates.

    Error bound: 1/2 against a·b / 2^31. (gemmlowp, fixedpoint.h, SaturatingRoundingDoublingHighMul.)

    One addition serves both signs. gemmlowp divides a negative product with truncation, after a smaller nudge 1 −
    2^30. That equals the floor of the product with the nudge 2^30.
    """
    high = np.asarray(a, np.int64) * np.asarray(b, np.int64) + (1 << 30)
    high >>= 31
    saturated: Int64 = np.minimum(high, INT32_MAX)
    return saturated


def divide_by_power_of_two(x: Int64, exponent: Int64 | int) -> Int64:
    """Return x / 2^exponent, ties away from zero; exponent from 0 to 62, |x| at most 2^62.

    Error bound: 1/2. (gemmlowp, fixedpoint.h, RoundingDivideByPOT.)
    """
    x, power = np.asarray(x, np.int64), np.asarray(exponent, np.int64)
    half = (np.int64(1) << power) >> 1
    # x >> 63 subtracts one from a negative x, so that its ties go to the lower integer.
    away = np.where(power > 0, x >> 63, 0)
    return (x + half + away) >> power


def multiply_by_power_of_two(x: Int64, exponent: int) -> Int64:
    """Return x · 2^exponent, saturated to int32, for an exponent up to 31.

    Ties of a negative exponent are rounded away from zero. Error bound: 1/2; exact for an exponent of 0 or more.
    (gemmlowp, fixedpoint.h, SaturatingRoundingMultiplyByPOT.)
    """
    if exponent <= 0:
        return divide_by_power_of_two(x, -exponent)
    saturated: Int64 = np.clip(np.asarray(x, np.int64) << exponent, INT32_MIN, INT32_MAX)
    return saturated


def quantize_multiplier(real: float | NDArray[Any]) -> tuple[Int64, Int64]:
    """Return multiplier m and shift s of non-negative reals: real ≈ m · 2^(s − 31).

    Zero and reals below 2^-32 give (0, 0). Error bound: 2^-31 relative, half of m's last bit.
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
    """Return x · multiplier · 2^(shift − 31) with gemmlowp's two roundings; the left shift wraps in int32.

    Error bound: 1/2 for a shift of 0 or more, 1/2 + 2^(shift − 1) below: 3/4 at most.
    (TensorFlow Lite, MultiplyByQuantizedMultiplier without TFLITE_SINGLE_ROUNDING.)
    """
    right = np.maximum(-np.asarray(shift, np.int64), 0)
    return divide_by_power_of_two(_multiply_shifted(x, multiplier, shift), right)


def multiply_ties_upwards(x: Int64, multiplier: Int64 | int, shift: Int64 | int) -> Int64:
    """Return the same with ties of the right shift upwards, as vector instructions round them.

    Error bound: that of `multiply`. (TensorFlow Lite's optimized kernels, VectorMultiplyByQuantizedMultiplier.)
    """
    right = np.maximum(-np.asarray(shift, np.int64), 0)
    half = (np.int64(1) << right) >> 1
    return np.right_shift(_multiply_shifted(x, multiplier, shift) + half, right)


def _multiply_shifted(x: Int64, multiplier: Int64 | int, shift: Int64 | int) -> Int64:
    """Return the first rounding of `multiply`, before the right shift."""
    left = np.maximum(shift, 0)
    shifted = x << left
    if np.any(left):
        shifted = shifted.astype(np.int32).astype(np.int64)
    return doubling_high_mul(shifted, multiplier)


def rescale(x: Int64, real: float | NDArray[Any]) -> Int64:
    """Return x · real, computed by `multiply` with the quantized multiplier of ``real``.

    Error bound: that of `multiply` plus 2^-31 · |x · real|.
    """
    return multiply(x, *quantize_multiplier(real))


def exp_of_negative(x: Int64, integer_bits: int = 5) -> Int64:
    """Return exp(x) in Q0.31 for x ≤ 0 in Q5.26, or with fewer integer bits; exp(0) is the largest int32.

    Error bound: 2^-22 absolute. (gemmlowp, fixedpoint.h, exp_on_negative_values.)
    """
    # The bit that counts quarters.
    lowest = 29 - integer_bits
    quarter = 1 << lowest
    within = (x & (quarter - 1)) - quarter
    value = _exp_of_last_quarter(within << integer_bits)
    left = within - x
    for bit, factor in enumerate(_EXP_OF_POWERS[: integer_bits + 2], start=lowest):
        value = np.where(left >> bit & 1, doubling_high_mul(value, factor), value)
    return np.where(x == 0, INT32_MAX, value)


def _exp_of_last_quarter(x: Int64) -> Int64:
    """Return exp(x) in Q0.31, −1/4 ≤ x < 0: degree 4 about −1/8, error e^(−1/8) · 8^-5 / 5! = 2^-22.1."""
    x = x + (1 << 28)
    x2 = doubling_high_mul(x, x)
    x3 = doubling_high_mul(x2, x)
    x4 = doubling_high_mul(x2, x2)
    inner = doubling_high_mul(divide_by_power_of_two(x4, 2) + x3, _THIRD) + x2
    polynomial = x + divide_by_power_of_two(inner, 1)
    return _EXP_MINUS_EIGHTH + doubling_high_mul(polynomial, _EXP_MINUS_EIGHTH)


def rounding_half_sum(a: Int64, b: Int64 | int) -> Int64:
    """Return (a + b) / 2, ties away from zero."""
    total = a + b
    return (total + (total >= 0)) >> 1


def one_over_one_plus(x: Int64) -> Int64:
    """Return 1 / (1 + x) in Q0.31 for x in [0, 1) of Q0.31.

    Error bound: 2^-27 absolute. (gemmlowp, fixedpoint.h, one_over_one_plus_x_for_x_in_0_1.)
    """
    return multiply_by_power_of_two(_two_over_one_plus(x), 1)


def one_minus_over_one_plus(x: Int64) -> Int64:
    """Return (1 − x) / (1 + x) = 2 / (1 + x) − 1 in Q0.31 for x in [0, 1) of Q0.31.

    Error bound: 2^-26 absolute. (gemmlowp, fixedpoint.h, one_minus_x_over_one_plus_x_for_x_in_0_1.)
    """
    return multiply_by_power_of_two(_two_over_one_plus(x) - _ONE, 2)


def _two_over_one_plus(x: Int64) -> Int64:
    """Return 2 / (1 + x) in Q2.29, the reciprocal of (1 + x) / 2."""
    half = rounding_half_sum(x, INT32_MAX)
    estimate = _48_OVER_17 + doubling_high_mul(half, _MINUS_32_OVER_17)
    for _ in range(3):
        missing = _ONE - doubling_high_mul(half, estimate)
        estimate = estimate + multiply_by_power_of_two(doubling_high_mul(estimate, missing), 2)
    return estimate


def leading_zeros(x: Int64) -> Int64:
    """Return the number of leading zero bits of positive x as 32-bit integers."""
    # frexp's exponent is the bit length, exact for integers below 2^53.
    return 32 - np.frexp(x.astype(np.float64))[1].astype(np.int64)


def reciprocal(x: Int64, integer_bits: int) -> tuple[Int64, Int64]:
    """Return 1 / x of a positive fixed-point x: a Q0.31 value, and the number of bits of x above 1.

    Error bound: 2^-26 relative. (TensorFlow Lite, GetReciprocal.)
    """
    headroom = leading_zeros(x)
    scaled = (x << headroom) - (1 << 31)
    return one_over_one_plus(scaled), integer_bits - headroom


def logistic(x: Int64, integer_bits: int) -> Int64:
    """Return 1 / (1 + exp(−x)) in Q0.31 for an int32 x above INT32_MIN with at most 5 integer bits.

    Error bound: 2^-22 absolute, that of its exponential.
    """
    positive = one_over_one_plus(exp_of_negative(-np.abs(x), integer_bits))
    value = np.where(x > 0, positive, INT32_MAX - positive)
    return np.where(x == 0, 1 << 30, value)


def tanh(x: Int64, integer_bits: int) -> Int64:
    """Return the hyperbolic tangent in Q0.31 of an int32 x above INT32_MIN with at most 4 integer bits.

    Error bound: 2^-20 absolute. |d/de (1 − e)/(1 + e)| ≤ 2, so it is twice the error of the exponential and of the
    division.
    """
    # The bits of x in Q4.27 are those of 2x in Q5.26.
    value = one_minus_over_one_plus(exp_of_negative(-np.abs(x), integer_bits + 1))
    return np.sign(x) * value


def inverse_sqrt(x: Int64) -> tuple[Int64, Int64]:
    """Return multiplier m and shift s of 1 / sqrt(x) ≈ m · 2^(s − 31), for integers x < 2^31; x < 1 counts as 1.

    Error bound: 2^-19 relative. (TensorFlow Lite, GetInvSqrtQuantizedMultiplierExp.)
    """
    scaled, shift = np.maximum(x, 2), np.full(x.shape, 11, np.int64)
    large = scaled >= 1 << 29
    scaled, shift = np.where(large, scaled >> 2, scaled), shift + large
    pairs = (leading_zeros(scaled) - 1) // 2 - 1
    scaled, shift = scaled << (2 * pairs), shift - pairs
    half = divide_by_power_of_two(scaled >> 1, 1)
    root = np.full(x.shape, 1 << 28, np.int64)
    for _ in range(5):
        cube = doubling_high_mul(doubling_high_mul(root, root), root)
        cube = multiply_by_power_of_two(cube, 6)
        step = doubling_high_mul(root, _ONE_AND_A_HALF) - doubling_high_mul(half, cube)
        root = multiply_by_power_of_two(step, 3)
    root = doubling_high_mul(root, ROOT_OF_HALF)
    root, shift = root << np.maximum(-shift, 0), np.maximum(shift, 0)
    unit = x <= 1
    return np.where(unit, INT32_MAX, root), np.where(unit, 0, -shift)
