"""How is 1 / sqrt(x) of an integer computed in 32-bit fixed point? As LiteRT's L2 normalization does it.

x is scaled by a power of four into [2^27, 2^29), and five Newton steps y ← y · (3 − x·y²) / 2 from y = 1 give the
inverse root in Q3.28. (TensorFlow Lite, GetInvSqrtQuantizedMultiplierExp.)
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
from ptq.kernels.softmax import leading_zeros

_ONE_AND_A_HALF = (1 << 28) + (1 << 27)  # Q3.28
_HALF_SQRT_2 = 1518500250  # Q0.31


def inverse_sqrt(x: Int64) -> tuple[Int64, Int64]:
    """Multiplier m and shift s of 1 / sqrt(x) ≈ m · 2^(s − 31), for integers x < 2^31; below 1 as 1.

    Bound: 2^-19 relative. (TensorFlow Lite, GetInvSqrtQuantizedMultiplierExp.)
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
    root = doubling_high_mul(root, _HALF_SQRT_2)
    root, shift = root << np.maximum(-shift, 0), np.maximum(shift, 0)
    unit = x <= 1
    return np.where(unit, INT32_MAX, root), np.where(unit, 0, -shift)
