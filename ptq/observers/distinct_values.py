"""Counts of the distinct values of a tensor that has only a few of them.

8-bit pixels, one-hot inputs and token masks have few values. Their rounding error depends on the exact values, which
a histogram does not keep. A multiplicative hash without collisions recognizes the earlier values (Knuth, TAOCP 3,
6.4). So a pass needs a few operations for each value and no sort.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import FloatArray
from ptq.observers.bfloat16_histogram import flush_to_zero
from ptq.observers.key_counter import CHUNK, count_keys

MAX_DISTINCT = 1024
"""The largest number of distinct values that are kept individually."""

_SAMPLE = 4096
_HASH_BITS = 18
"""Bits of a hash. With 1024 values, one factor in eight has no collision."""


def count_distinct_values(
    x: FloatArray, earlier: FloatArray
) -> tuple[FloatArray, NDArray[np.int64]] | None:
    """The union of earlier values and the distinct values of x, with their counts in x.

    Args:
        x: Finite and one-dimensional, not empty.
        earlier: Distinct values of earlier arrays, ascending, at most `MAX_DISTINCT`.

    Returns:
        Ascending values (0 for what counts as 0) and int64 counts, or None if there are more than `MAX_DISTINCT`
        values. The values are the same object if none is new.
    """
    values = earlier if earlier.size else _unite_values(earlier, x)
    counts, start = np.zeros(values.size, np.int64), 0
    while values.size <= MAX_DISTINCT:
        if start >= x.size:
            return values, counts
        piece = x[start : start + CHUNK] + np.float32(0)  # -0.0 + 0 = 0
        rank = _build_table(values.tobytes()).find_ranks(piece)
        missed = piece[values.take(rank) != piece]
        if (flush_to_zero(missed) != missed).any():
            x = flush_to_zero(x)
        elif missed.size:
            wider = _unite_values(values, missed)
            wider_counts = np.zeros(wider.size, np.int64)
            wider_counts[np.searchsorted(wider, values)] = counts
            values, counts = wider, wider_counts
        else:
            counts += count_keys(rank, values.size)
            start += CHUNK
    return None


def _unite_values(values: FloatArray, x: FloatArray) -> FloatArray:
    return np.union1d(values, flush_to_zero(x[:_SAMPLE]))


class _HashTable:
    """Finds values by a hash on which no two of them collide."""

    def __init__(self, values: FloatArray) -> None:
        self._factor = np.uint32(2654435769)  # 2^32 / golden ratio
        slots = self._find_slots(values)
        while np.unique(slots).size < values.size:
            self._factor = np.uint32((int(self._factor) * 747796405 + 2891336452) % 2**32 | 1)
            slots = self._find_slots(values)
        self._ranks = np.zeros(1 << _HASH_BITS, np.uint16)
        self._ranks[slots] = np.arange(values.size)

    def find_ranks(self, x: FloatArray) -> NDArray[np.uint16]:
        """Index of each x in the values; arbitrary if x is not one of them."""
        return self._ranks.take(self._find_slots(x))

    def _find_slots(self, x: FloatArray) -> NDArray[np.uint32]:
        return (x.view(np.uint32) * self._factor) >> np.uint32(32 - _HASH_BITS)


@lru_cache(maxsize=8)
def _build_table(values: bytes) -> _HashTable:
    """The table of float32 values; arrays without a new value have it in common."""
    return _HashTable(np.frombuffer(values, np.float32))
