"""Float32 operations that numpy lacks: fused multiply-add."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ptq.core.types import FloatArray


def fma(a: ArrayLike, b: ArrayLike, c: ArrayLike) -> FloatArray:
    """Return a · b + c, rounded once to float32.

    The product of two float32 numbers (24 bits each) is exact in float64. Knuth's TwoSum gives the error of the sum.
    An inexact sum is replaced by its neighbour with an odd last bit (rounding to odd). From 53 ≥ 24 + 2 bits the
    second rounding is then correct (Boldo and Melquiond 2008).
    """
    product = np.asarray(a, np.float32).astype(np.float64) * np.asarray(b, np.float32)
    addend = np.asarray(c, np.float32).astype(np.float64)
    total = np.asarray(product + addend)
    back = total - product
    error = (product - (total - back)) + (addend - back)
    even = (total.view(np.int64) & 1) == 0
    neighbour = np.nextafter(total, np.copysign(np.inf, error))
    odd = np.where((error != 0) & even, neighbour, total)
    return odd.astype(np.float32)
