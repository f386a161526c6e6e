"""A positive real factor as an integer multiplier and a shift, and its product with an integer, rounded once.

    real ≈ m · 2^-r,   m an integer of the given bits, its highest bit set:  m ∈ [2^(bits−1), 2^bits)
    x · real ≈ floor(x · m / 2^r + 1/2)                                      one rounding, ties upwards

m is the nearest such integer, so that its relative error is at most 2^-bits. With 31 bits m / 2^31 is the M_0 of
Jacob et al. 2018 (eq. 6), in [0.5, 1); 1 itself cannot occur, because it is 0.5 · 2. gemmlowp's product rounds twice
(`fixed_point`). Hardware that keeps the whole product rounds once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]

# int64 has no half unit of a shift by 63 or more.
_LARGEST_SHIFT = 62


def to_mantissa_and_shift(real: float | NDArray[Any], bits: int) -> tuple[Int64, Int64]:
    """Return mantissa m and fraction bits r of non-negative reals: real ≈ m · 2^-r; zero gives (0, 0).

    r is negative if the real is 2^bits or more.
    """
    fraction, exponent = np.frexp(np.asarray(real, np.float64))
    m = np.floor(np.ldexp(fraction, bits) + 0.5).astype(np.int64)
    carried = m == 1 << bits
    m = np.where(carried, 1 << (bits - 1), m)
    r = bits - exponent.astype(np.int64) - carried
    return m, np.where(m == 0, 0, r)


def shift_right(x: Int64, bits: Int64 | int) -> Int64:
    """Return the nearest integer to x / 2^bits, ties upwards; negative bits shift left. x in [−2^62, 2^62)."""
    right = np.clip(bits, 0, _LARGEST_SHIFT)
    left = np.maximum(-np.asarray(bits, np.int64), 0)
    half = (np.int64(1) << np.asarray(right, np.int64)) >> 1
    shifted: Int64 = ((x << left) + half) >> right
    # A right shift by more than 62 gives zero: −1/2 ≤ x / 2^63 < 1/2, and −1/2 rounds up.
    return np.where(np.asarray(bits) > _LARGEST_SHIFT, 0, shifted)
