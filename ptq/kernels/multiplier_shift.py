"""How is a positive real number written with few bits, and how does an integer product with it end?

    real ≈ m · 2^-r,   m an integer of the given bits, its highest bit set:  m ∈ [2^(bits−1), 2^bits)
    x · real ≈ floor(x · m / 2^r + 1/2)                                      one rounding, ties upwards

m is the nearest such integer, so that its relative error is at most 2^-bits. With 31 bits m / 2^31 is the M_0 of
Jacob et al. 2018 (eq. 6), in [0.5, 1); 1 itself cannot occur, as it is 0.5 · 2. Gemmlowp's product with a
multiplier rounds twice (`fixedpoint`); hardware that keeps the whole product rounds once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]

# From 2^63 on no int64 is left of half a unit.
_LARGEST_SHIFT = 62


def mantissa_and_shift(real: float | NDArray[Any], bits: int) -> tuple[Int64, Int64]:
    """Mantissa m and fraction bits r of non-negative reals: real ≈ m · 2^-r; zero gives (0, 0).

    r is negative where the real is 2^bits or more.
    """
    fraction, exponent = np.frexp(np.asarray(real, np.float64))
    m = np.floor(np.ldexp(fraction, bits) + 0.5).astype(np.int64)
    carried = m == 1 << bits
    m = np.where(carried, 1 << (bits - 1), m)
    r = bits - exponent.astype(np.int64) - carried
    return m, np.where(m == 0, 0, r)


def shift_right(x: Int64, bits: Int64 | int) -> Int64:
    """Nearest integer to x / 2^bits, ties upwards; negative bits shift left. x in [−2^62, 2^62)."""
    right = np.clip(bits, 0, _LARGEST_SHIFT)
    left = np.maximum(-np.asarray(bits, np.int64), 0)
    half = (np.int64(1) << np.asarray(right, np.int64)) >> 1
    shifted: Int64 = ((x << left) + half) >> right
    # Further right than 62 lies nothing but zero: −1/2 ≤ x / 2^63 < 1/2, and −1/2 rounds up.
    return np.where(np.asarray(bits) > _LARGEST_SHIFT, 0, shifted)
