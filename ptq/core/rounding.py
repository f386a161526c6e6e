"""Rounding of floats: to whole numbers with ties away from zero (C's ``round``), and to halves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def round_half_away(x: NDArray[Any]) -> NDArray[Any]:
    """Round to the nearest integer, ties away from zero, in the floating-point type of x."""
    whole = np.trunc(x)
    with np.errstate(invalid="ignore"):  # infinities are whole
        far = np.abs(x - whole) >= 0.5
    away: NDArray[Any] = whole + np.copysign(far, x).astype(whole.dtype)
    return away


def round_to_halves(x: NDArray[Any]) -> NDArray[Any]:
    """A float32 array as a Cast to float16 and back leaves it; another array as it is.

    What is larger than 65504 becomes infinite.
    """
    if x.dtype != np.float32:
        return x
    with np.errstate(over="ignore"):
        return x.astype(np.float16).astype(np.float32)
