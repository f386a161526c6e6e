"""Histogram of float32 values whose cells are the bfloat16 numbers, that is the upper 16 bits of a float32.

A bfloat16 has a sign, 8 bits of exponent and 7 bits of mantissa. Every magnitude is resolved to 2^-7 of itself. No
range is needed in advance and no cell is ever rescaled, so merging counts is exact. The 128 cells of one sign and
exponent are a *binade*; a tensor occupies a few dozen of the 512 binades.

Zeros have no cell. They are counted separately, which also makes -0.0 equal to 0.

The histogram is a sparse matrix-vector product. The matrix has one column and a 1 in row ``key`` for every value, so
A · [1] counts the keys. SciPy runs it without the interpreter's lock and without widening the keys to 64 bits. It
takes about half the time of ``numpy.bincount``.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from ptq.core.types import FloatArray

CELLS_PER_BINADE = 128
BINADES = 512
_FIRST_NEGATIVE = 256
"""The first binade of the negative numbers."""
CHUNK = 1 << 18
"""Keys of one product: 1 MB, the size of a second-level cache."""
_BINCOUNT_LIMIT = 1 << 12
"""Number of values up to which numpy.bincount is as fast and avoids the 0.15 s for loading scipy.sparse."""


@dataclass(frozen=True, eq=False)
class PrefixCounts:
    """Counts of nonzero values by their upper 16 bits.

    Attributes:
        binades: int64, ascending: the upper 9 bits (sign and exponent) of the counted binades.
        counts: int64, shape (binades, 128): the count for each mantissa.
    """

    binades: NDArray[np.int64]
    counts: NDArray[np.int64]

    def merge(self, other: PrefixCounts) -> PrefixCounts:
        """The sum of both counts."""
        if self.binades is other.binades:
            return PrefixCounts(self.binades, self.counts + other.counts)
        binades = np.union1d(self.binades, other.binades)
        counts = np.zeros((binades.size, CELLS_PER_BINADE), np.int64)
        for each in (self, other):
            counts[np.searchsorted(binades, each.binades)] += each.counts
        return PrefixCounts(binades, counts)

    @property
    def has_nonfinite(self) -> bool:
        """Whether the binades of NaN and the infinities are counted."""
        return not {_FIRST_NEGATIVE - 1, BINADES - 1}.isdisjoint(self.binades.tolist())

    def outermost_cell(self, *, negative: bool) -> tuple[float, float, int] | None:
        """The cell furthest from 0, on one side of 0, that may hold a value.

        Returns:
            The cell's edge nearer to 0, its outer edge, beyond which there is no value, and its count. None if
            no binade of that side is counted.
        """
        row = (
            self.binades.size if negative else int(np.searchsorted(self.binades, _FIRST_NEGATIVE))
        ) - 1
        if row < 0 or (self.binades[row] >= _FIRST_NEGATIVE) != negative:
            return None
        first = int(self.binades[row]) % _FIRST_NEGATIVE * CELLS_PER_BINADE
        sign = -1.0 if negative else 1.0
        filled = np.flatnonzero(self.counts[row])
        if filled.size == 0:  # all values are nearer to 0 than this binade
            return math.nan, sign * float(cell_edges()[first]), 0
        last = int(filled[-1])
        near, far = sign * cell_edges()[first + last : first + last + 2]
        return float(near), float(far), int(self.counts[row, last])

    def to_sparse(self) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
        """The occupied cells, ascending, and their counts."""
        row, mantissa = np.nonzero(self.counts)
        cells = (self.binades[row] * CELLS_PER_BINADE + mantissa).astype(np.uint16)
        return cells, self.counts[row, mantissa]


def from_cells(cells: NDArray[np.uint16], counts: NDArray[np.int64]) -> PrefixCounts:
    """Counts from pairs of cell and count; a cell may occur several times."""
    binades, row = np.unique(cells.astype(np.int64) // CELLS_PER_BINADE, return_inverse=True)
    dense = np.zeros((binades.size, CELLS_PER_BINADE), np.int64)
    np.add.at(dense, (row, cells % CELLS_PER_BINADE), counts)
    return PrefixCounts(binades, dense)


@cache
def cell_edges() -> NDArray[np.float64]:
    """Lower edge of each nonnegative cell, followed by 2^128, the upper edge of the largest finite cell."""
    exponent, mantissa = np.divmod(np.arange(255 * CELLS_PER_BINADE + 1), CELLS_PER_BINADE)
    leading = np.where(exponent > 0, CELLS_PER_BINADE, 0)
    real = np.ldexp((leading + mantissa).astype(np.float64), np.maximum(exponent, 1) - 134)
    return np.asarray(real, np.float64)


def to_prefixes(x: FloatArray) -> NDArray[np.uint16]:
    """Cell of each value."""
    upper: NDArray[np.uint16] = (x.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return upper


def prefix_counts(
    x: FloatArray, expected: NDArray[np.int64], *, many_zeros: bool
) -> tuple[int, PrefixCounts]:
    """Number of zeros, and counts of the nonzero values by cell.

    Args:
        x: One-dimensional and contiguous, fewer than 2^31 values.
        expected: Binades that are likely to be occupied. The result contains them even if they are empty. If
            they suffice, no search for further binades is needed.
        many_zeros: Whether many zeros are likely. This changes the speed only, never the result.
    """
    dense = _histogram(x, spread=many_zeros)
    tiny = dense[::_FIRST_NEGATIVE]
    below_normal = int(tiny.sum())
    zeros = count_equal(x, 0.0) if below_normal else 0
    if below_normal == zeros:
        tiny[:] = 0
    else:  # there are subnormal values; spreading has mixed their cells
        dense = _histogram(x[x != 0], spread=False)
    counts = dense[expected].astype(np.int64)
    if int(counts.sum()) == x.size - zeros:
        return zeros, PrefixCounts(expected, counts)
    binades = np.union1d(expected, np.flatnonzero(dense.max(axis=1)))
    return zeros, PrefixCounts(binades, dense[binades].astype(np.int64))


def key_counts(keys: NDArray[np.uint16]) -> NDArray[np.int32]:
    """Count of each 16-bit integer among at most 2^18 keys."""
    if keys.size <= _BINCOUNT_LIMIT:
        return _few_counts(keys)
    counter = _thread_counter()
    counter.keys[: keys.size] = keys
    return counter.counts(keys.size)


def _few_counts(keys: NDArray[Any]) -> NDArray[np.int32]:
    return np.bincount(keys, minlength=BINADES * CELLS_PER_BINADE).astype(np.int32)


class _Counter(threading.local):
    """A sparse matrix of one column whose product with [1] counts its row indices; one for each thread."""

    def __init__(self) -> None:
        ones = np.ones(CHUNK, np.int32)
        ends = np.array([0, CHUNK], np.int32)
        rows = np.zeros(CHUNK, np.int32)
        self._matrix = scipy.sparse.csc_array(
            (ones, rows, ends), shape=(BINADES * CELLS_PER_BINADE, 1)
        )
        self._one = ones[:1]
        self.keys: NDArray[np.uint32] = self._matrix.indices.view(np.uint32)
        self.flags = np.zeros(CHUNK, np.bool_)

    def counts(self, size: int) -> NDArray[np.int32]:
        """Count of each 16-bit integer among the first ``size`` keys."""
        self._matrix.indptr[1] = size
        return np.asarray(self._matrix @ self._one, np.int32)


@cache
def _thread_counter() -> _Counter:
    return _Counter()


@cache
def _spread_keys() -> NDArray[np.uint32]:
    return np.arange(CHUNK, dtype=np.uint32) % CELLS_PER_BINADE


def count_equal(x: FloatArray, value: float) -> int:
    """Number of occurrences of the value in a one-dimensional array."""
    if x.size <= _BINCOUNT_LIMIT:
        return int(np.count_nonzero(x == value))
    flags, total = _thread_counter().flags, 0
    for start in range(0, x.size, CHUNK):
        chunk = x[start : start + CHUNK]
        total += int(np.count_nonzero(np.equal(chunk, value, out=flags[: chunk.size])))
    return total


def _histogram(x: FloatArray, *, spread: bool) -> NDArray[np.int32]:
    """Counts by cell, shape (512, 128), with zeros in the cells of 0 and -0.0.

    Additions to one address wait for each other. After a ReLU, half of the values may be 0, and one key for all
    zeros would double the time. ``spread`` distributes values from 0 to 2^-126 over the first 128 cells,
    regardless of their own cells.
    """
    if x.size <= _BINCOUNT_LIMIT:
        return _few_counts(x.view(np.uint32) >> np.uint32(16)).reshape(BINADES, CELLS_PER_BINADE)
    bits, counter = x.view(np.uint32), _thread_counter()
    total: NDArray[np.int32] | None = None
    for start in range(0, x.size, CHUNK):
        chunk = bits[start : start + CHUNK]
        keys = np.right_shift(chunk, np.uint32(16), out=counter.keys[: chunk.size])
        if spread:
            np.maximum(keys, _spread_keys()[: chunk.size], out=keys)
        counts = counter.counts(chunk.size)
        total = counts if total is None else np.add(total, counts, out=total)
    if total is None:
        total = np.zeros(BINADES * CELLS_PER_BINADE, np.int32)
    return total.reshape(BINADES, CELLS_PER_BINADE)
