"""How are 1 / (1 + exp(−x)) and tanh(x) computed in 32-bit fixed point? As gemmlowp does it.

For x > 0 the first is 1 / (1 + e) with e = exp(−x) in Q0.31, for x < 0 what is left to 1; the second is
(1 − e²) / (1 + e²) with the sign of x. (gemmlowp, fixedpoint.h.)
"""

from __future__ import annotations

import numpy as np

from ptq.kernels.fixedpoint import INT32_MAX, Int64
from ptq.kernels.softmax import exp_of_negative, one_minus_over_one_plus, one_over_one_plus


def logistic(x: Int64, integer_bits: int) -> Int64:
    """1 / (1 + exp(−x)) in Q0.31 for an int32 x of so many integer bits, at most 5, above INT32_MIN.

    Bound: 2^-22 absolute, as its exponential has.
    """
    positive = one_over_one_plus(exp_of_negative(-np.abs(x), integer_bits))
    value = np.where(x > 0, positive, INT32_MAX - positive)
    return np.where(x == 0, 1 << 30, value)


def tanh(x: Int64, integer_bits: int) -> Int64:
    """The hyperbolic tangent in Q0.31 of an int32 x of so many integer bits, at most 4, above INT32_MIN.

    Bound: 2^-20 absolute: |d/de (1 − e)/(1 + e)| ≤ 2, twice the error of its exponential and of the division.
    """
    # the bits of x in Q4.27 are those of 2x in Q5.26
    value = one_minus_over_one_plus(exp_of_negative(-np.abs(x), integer_bits + 1))
    return np.sign(x) * value
