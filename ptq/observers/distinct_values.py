"""Does a tensor take only a few distinct values, and how often each?

8-bit pixels, one-hot inputs and token masks do; the rounding error of such values depends on where exactly
they lie, which no histogram knows. Known values are recognised through a multiplicative hash without
collisions among them (Knuth, TAOCP 3, 6.4), so that a pass costs a few operations a value and no sort.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import FloatArray
from ptq.observers.bfloat16_histogram import CHUNK, key_counts

MAX_DISTINCT = 1024
"""The largest number of distinct values that are kept one by one."""

_SAMPLE = 4096
_HASH_BITS = 18  # with 1024 values, one factor in eight is free of collisions


def distinct_counts(
    x: FloatArray, known: FloatArray
) -> tuple[FloatArray, NDArray[np.int64]] | None:
    """The distinct values of x, and of what was known before, with their counts in x.

    Args:
        x: Finite and one-dimensional.
        known: Values seen earlier, ascending, at most CAP.

    Returns:
        Ascending values (0 for -0.0) and int64 counts, or None where there are more than CAP.
    """
    values = _union(known, x[:_SAMPLE])
    counts = np.zeros(values.size, np.int64)
    start = 0
    while values.size <= MAX_DISTINCT:
        if start >= x.size:
            return values, counts
        piece = x[start : start + CHUNK] + np.float32(0)  # -0.0 + 0 = 0
        rank = _ranks(piece, values)
        missed = piece[values[rank] != piece]
        if missed.size:
            wider = _union(values, missed[:_SAMPLE])
            moved = np.zeros(wider.size, np.int64)
            moved[np.searchsorted(wider, values)] = counts
            values, counts = wider, moved
        else:
            counts += key_counts(rank)[: values.size]
            start += CHUNK
    return None


def _union(known: FloatArray, x: FloatArray) -> FloatArray:
    return np.union1d(known, x + np.float32(0))


def _ranks(x: FloatArray, values: FloatArray) -> NDArray[np.uint16]:
    """Where each x stands among the values, if it is one of them."""
    factor = np.uint32(2654435769)  # 2^32 / golden ratio
    slots = _slots(values, factor)
    while np.unique(slots).size < values.size:
        factor = np.uint32((int(factor) * 747796405 + 2891336452) % 2**32 | 1)
        slots = _slots(values, factor)
    table = np.zeros(1 << _HASH_BITS, np.uint16)
    table[slots] = np.arange(values.size)
    return table[_slots(x, factor)]


def _slots(x: FloatArray, factor: np.uint32) -> NDArray[np.uint32]:
    return (x.view(np.uint32) * factor) >> np.uint32(32 - _HASH_BITS)
