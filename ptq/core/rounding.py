"""Rounding of floats to whole numbers that numpy lacks: ties away from zero (C's ``round``)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def round_half_away(x: NDArray[Any]) -> NDArray[Any]:
    """Round to the nearest integer, ties away from zero, in the floating-point type of x."""
    whole = np.trunc(x)
    away: NDArray[Any] = whole + np.copysign(np.abs(x - whole) >= 0.5, x).astype(whole.dtype)
    return away
