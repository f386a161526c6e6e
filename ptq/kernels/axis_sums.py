"""Exact sums of raw integers along axes; the caller subtracts zero points."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import IntArray


def sum_axes(
    q: IntArray, axes: Sequence[int] | None, keepdims: bool
) -> tuple[NDArray[np.int64], int]:
    """Return the sums of q along the axes (None: all), and the number of values in each sum."""
    along = tuple(range(q.ndim)) if axes is None else tuple(int(axis) % q.ndim for axis in axes)
    # int32 holds the sum of 2^23 bytes or 2^15 pairs of bytes; numpy adds it about twice as fast as int64.
    count = prod(q.shape[axis] for axis in along)
    dtype = np.int32 if count < 1 << (31 - 8 * q.dtype.itemsize) else np.int64
    return q.sum(axis=along, keepdims=keepdims, dtype=dtype).astype(np.int64), count
