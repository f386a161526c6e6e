"""How is 1 / (1 + exp(−x)) computed in 32-bit fixed point? As gemmlowp does it.

For x > 0 it is 1 / (1 + e) with e = exp(−x) in Q0.31; for x < 0 what is left to 1. (gemmlowp, fixedpoint.h.)
"""

from __future__ import annotations

import numpy as np

from ptq.kernels.fixedpoint import INT32_MAX, Int64
from ptq.kernels.softmax import exp_of_negative, one_over_one_plus


def logistic(x: Int64, integer_bits: int) -> Int64:
    """1 / (1 + exp(−x)) in Q0.31 for an int32 x of so many integer bits, at most 5, above INT32_MIN.

    Bound: 2^-22 absolute, as its exponential has.
    """
    positive = one_over_one_plus(exp_of_negative(-np.abs(x), integer_bits))
    value = np.where(x > 0, positive, INT32_MAX - positive)
    return np.where(x == 0, 1 << 30, value)
