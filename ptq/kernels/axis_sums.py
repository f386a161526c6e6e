"""What do integers add up to along axes? Exact sums of raw values; zero points are left to the caller."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import IntArray


def axis_sums(
    q: IntArray, axes: Sequence[int] | None, keepdims: bool
) -> tuple[NDArray[np.int64], int]:
    """Sum of q along the axes (None: all), and how many values each sum has."""
    along = tuple(range(q.ndim)) if axes is None else tuple(int(axis) % q.ndim for axis in axes)
    # int32 holds the sum of 2^23 bytes, and numpy adds it about twice as fast as int64.
    count = prod(q.shape[axis] for axis in along)
    dtype = np.int32 if count < 1 << 23 else np.int64
    return q.sum(axis=along, keepdims=keepdims, dtype=dtype).astype(np.int64), count
