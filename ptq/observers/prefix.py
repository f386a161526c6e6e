"""How many values fall into each cell, where a cell is the upper 16 bits of a float32?

The upper half of a float32 is a bfloat16: sign, 8 bits of exponent, 7 of mantissa. Every magnitude is
resolved to 2^-7 of itself, no range is needed beforehand and nothing is ever rescaled, so adding counts is
exact. The 128 cells of one sign and exponent are a *binade*; a tensor occupies a few dozen of the 512.

Zeros have no cell: they are counted apart, which also makes -0.0 equal to 0.

The histogram is a sparse matrix-vector product: the matrix has one column and a 1 in row ``key`` for every
value, so that A · [1] adds up the keys. SciPy runs it without the interpreter's lock and without widening
the keys to 64 bits; it takes half the time of ``numpy.bincount``.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ptq.types import FloatArray

PER_BINADE = 128
BINADES = 512
CHUNK = 1 << 17
"""Keys of one product: 1 MB, the size of a second-level cache."""


@dataclass(frozen=True, eq=False)
class PrefixCounts:
    """Counts of nonzero finite values by their upper 16 bits.

    Attributes:
        binades: int64, ascending; the upper 9 bits (sign and exponent) of those that hold a value.
        counts: int64, shape (binades, 128), by mantissa.
    """

    binades: NDArray[np.int64]
    counts: NDArray[np.int64]

    def plus(self, other: PrefixCounts) -> PrefixCounts:
        """The counts of both."""
        if np.array_equal(self.binades, other.binades):
            return PrefixCounts(self.binades, self.counts + other.counts)
        binades = np.union1d(self.binades, other.binades)
        counts = np.zeros((binades.size, PER_BINADE), np.int64)
        for part in (self, other):
            counts[np.searchsorted(binades, part.binades)] += part.counts
        return PrefixCounts(binades, counts)

    def sparse(self) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
        """The occupied cells, ascending, and their counts."""
        row, mantissa = np.nonzero(self.counts)
        cells = (self.binades[row] * PER_BINADE + mantissa).astype(np.uint16)
        return cells, self.counts[row, mantissa]


def from_cells(cells: NDArray[np.uint16], counts: NDArray[np.int64]) -> PrefixCounts:
    """Counts given cell by cell; a cell may occur several times."""
    binades, row = np.unique(cells.astype(np.int64) // PER_BINADE, return_inverse=True)
    dense = np.zeros((binades.size, PER_BINADE), np.int64)
    np.add.at(dense, (row, cells % PER_BINADE), counts)
    return PrefixCounts(binades, dense)


def prefixes(x: FloatArray) -> NDArray[np.uint16]:
    """The cell of each value."""
    upper: NDArray[np.uint16] = (x.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return upper


def prefix_counts(x: FloatArray, expected: NDArray[np.int64]) -> tuple[int, PrefixCounts]:
    """Count the zeros, and the other values by cell.

    Args:
        x: Finite, one-dimensional and contiguous, fewer than 2^31 values.
        expected: Binades that are likely to be occupied. They are part of the result even if empty, and
            where they suffice, the search for others is saved.
    """
    zeros, total = _histogram(x)
    dense = total.reshape(BINADES, PER_BINADE)
    tiny = dense[:: BINADES // 2]
    if int(tiny.sum()) == zeros:
        tiny[:] = 0
    else:  # there are subnormal values, whose cells the spread of zeros has mixed
        dense = _histogram(x[x != 0])[1].reshape(BINADES, PER_BINADE)
    counts = dense[expected].astype(np.int64)
    if int(counts.sum()) == x.size - zeros:
        return zeros, PrefixCounts(expected, counts)
    binades = np.union1d(expected, np.flatnonzero(dense.max(axis=1)))
    return zeros, PrefixCounts(binades, dense[binades].astype(np.int64))


def key_counts(keys: NDArray[np.int64]) -> NDArray[np.int32]:
    """How often each integer below 65,536 occurs among at most 2^18 keys."""
    counter = _counter()
    counter.keys[: keys.size] = keys
    return counter.counts(keys.size)


class _Counter(threading.local):
    """A matrix of one column, whose product with [1] counts its row indices; one for each thread."""

    def __init__(self) -> None:
        from scipy.sparse import csc_array  # 0.1 s to import, needed only where something is counted

        ones = np.ones(CHUNK, np.int32)
        ends = np.array([0, CHUNK], np.int32)
        rows = np.zeros(CHUNK, np.int32)
        self._matrix = csc_array((ones, rows, ends), shape=(BINADES * PER_BINADE, 1))
        self._one = ones[:1]
        self.keys: NDArray[np.uint32] = self._matrix.indices.view(np.uint32)
        self.flags = np.zeros(CHUNK, np.bool_)

    def counts(self, size: int) -> NDArray[np.int32]:
        """How often each number below 65,536 occurs among the first ``size`` keys."""
        self._matrix.indptr[1] = size
        counts: NDArray[np.int32] = self._matrix @ self._one
        return counts


@cache
def _counter() -> _Counter:
    return _Counter()


@cache
def _spread() -> NDArray[np.uint32]:
    return np.arange(CHUNK, dtype=np.uint32) % PER_BINADE


def count_equal(x: FloatArray, value: float) -> int:
    """How often the value occurs in a one-dimensional array."""
    flags, total = _counter().flags, 0
    for start in range(0, x.size, CHUNK):
        part = x[start : start + CHUNK]
        total += int(np.count_nonzero(np.equal(part, value, out=flags[: part.size])))
    return total


def _histogram(x: FloatArray) -> tuple[int, NDArray[np.int32]]:
    """The number of zeros, and the counts by prefix, zeros included.

    Additions to one address wait for each other: after a ReLU, where every other value may be 0,
    one key for all zeros would double the time. Where they are many, all that lies below 2^-126 is
    spread over the first 128 cells, whatever its own.
    """
    bits, counter = x.view(np.uint32), _counter()
    zeros, total = 0, None
    for start in range(0, x.size, CHUNK):
        part = bits[start : start + CHUNK]
        zero = count_equal(x[start : start + CHUNK], 0.0)
        keys = np.right_shift(part, np.uint32(16), out=counter.keys[: part.size])
        if 8 * zero > part.size:
            np.maximum(keys, _spread()[: part.size], out=keys)
        counts = counter.counts(part.size)
        zeros += zero
        total = counts if total is None else np.add(total, counts, out=total)
    return zeros, np.zeros(BINADES * PER_BINADE, np.int32) if total is None else total
