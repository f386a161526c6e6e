"""Distance between floats in units in the last place (ULP)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def to_ulp_order(array: NDArray[Any]) -> NDArray[np.int64]:
    """Integers unchanged, float32 by its position among all float32 values: differences count LSB or ULP."""
    if array.dtype != np.float32:
        return array.astype(np.int64)
    bits = array.view(np.int32).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
