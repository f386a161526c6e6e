"""Histogram of float32 values whose cells are the bfloat16 numbers, that is the upper 16 bits of a float32.

A bfloat16 has a sign, 8 bits of exponent and 7 bits of mantissa. Every magnitude is resolved to 2^-7 of itself. No
range is needed in advance and no cell is ever rescaled, so merging counts is exact. The 128 cells of one sign and
exponent are a *binade*; a tensor occupies a few dozen of the 512 binades.

Zeros have no cell. They are counted separately, which also makes -0.0 equal to 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import FloatArray
from ptq.observers.key_counter import CHUNK, KEYS, KeyCounter, thread_counter

CELLS_PER_BINADE = 128
BINADES = 512
_FIRST_NEGATIVE = 256
"""The first binade of the negative numbers."""
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

    def count_extreme(self, end: float, *, negative: bool) -> int | None:
        """Number of values equal to the least or the greatest value, not 0; None if the cells do not determine it.

        If all other values lie nearer to 0 and the value is its cell's edge nearer to 0, it has the cell alone.
        """
        bits = int(np.float32(end).view(np.uint32))
        if bits & 0xFFFF or (end < 0) != negative:
            return None
        binade, mantissa = divmod(bits >> 16, CELLS_PER_BINADE)
        return int(self.counts[np.searchsorted(self.binades, binade), mantissa])

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


@dataclass(frozen=True, eq=False)
class ArrayCounts:
    """What one pass over the values of an array finds.

    Attributes:
        zeros: Number of values that are 0 or -0.0.
        least: Least value; NaN if there is a NaN.
        greatest: Greatest value; NaN if there is a NaN.
        cells: Counts of the nonzero values by cell; meaningless if ``least`` or ``greatest`` is not finite.
    """

    zeros: int
    least: float
    greatest: float
    cells: PrefixCounts

    @property
    def is_finite(self) -> bool:
        """Whether the array holds neither NaN nor infinities."""
        return math.isfinite(self.least) and math.isfinite(self.greatest)


def count_array(x: FloatArray, expected: NDArray[np.int64], *, many_zeros: bool) -> ArrayCounts:
    """Zeros, extremes and cell counts of an array, in one pass through chunks that fit the cache.

    Args:
        x: One-dimensional and contiguous, not empty, fewer than 2^31 values.
        expected: Binades that are likely to be occupied. The result contains them even if they are empty. If
            they suffice, no search for further binades is needed.
        many_zeros: Whether many zeros are likely. This changes the speed only, never the result.
    """
    if x.size <= _BINCOUNT_LIMIT:
        keys = x.view(np.uint32) >> np.uint32(16)
        few = np.bincount(keys, minlength=KEYS).astype(np.int32)
        return _evaluate(x, few, float(x.min()), float(x.max()), None, expected)
    counter = thread_counter()
    try:
        least, greatest, zeros = _fill(counter, x, spread=many_zeros)
        return _evaluate(x, counter.counts, least, greatest, zeros, expected)
    except BaseException:
        counter.counts.fill(0)
        raise


def _evaluate(
    x: FloatArray,
    counts: NDArray[np.int32],
    least: float,
    greatest: float,
    zeros: int | None,
    expected: NDArray[np.int64],
) -> ArrayCounts:
    """Separate zeros from the counts of an array, and set the counts to 0."""
    dense = counts.reshape(BINADES, CELLS_PER_BINADE)
    tiny = dense[::_FIRST_NEGATIVE]
    below_normal = int(tiny.sum())
    if zeros is None or zeros != below_normal:  # not counted yet, or some are -0.0 or subnormal
        zeros = count_equal(x, 0.0) if below_normal else 0
    if below_normal == zeros:
        tiny[:] = 0
    else:  # there are subnormal values; spreading has mixed their cells
        counts.fill(0)
        cells, each = np.unique(to_prefixes(x[x != 0]), return_counts=True)
        counts[cells] = each
    found = dense[expected].astype(np.int64)
    if int(found.sum()) == x.size - zeros:
        dense[expected] = 0
        return ArrayCounts(zeros, least, greatest, PrefixCounts(expected, found))
    binades = np.union1d(expected, np.flatnonzero(dense.any(axis=1)))
    found = dense[binades].astype(np.int64)
    dense[binades] = 0
    return ArrayCounts(zeros, least, greatest, PrefixCounts(binades, found))


def _fill(counter: KeyCounter, x: FloatArray, *, spread: bool) -> tuple[float, float, int | None]:
    """Add the keys of all values to the counter.

    Additions to one address wait for each other. After a ReLU, half of the values may be 0, and one key for all
    zeros would take more time. ``spread`` distributes values from 0 to 2^-126 over the first 128 cells, regardless
    of their own cells.

    Returns:
        The extremes, NaN if there is a NaN; and the number of values +0.0 if ``spread``, else None.
    """
    bits, ends, nonzero = x.view(np.uint32), list[np.float32](), 0
    for start in range(0, x.size, CHUNK):
        chunk, values = bits[start : start + CHUNK], x[start : start + CHUNK]
        keys = np.right_shift(chunk, np.uint32(16), out=counter.keys[: chunk.size])
        if spread:
            np.maximum(keys, _spread_keys()[: chunk.size], out=keys)
            nonzero += int(np.count_nonzero(chunk))
        counter.add(chunk.size)
        ends += np.minimum.reduce(values), np.maximum.reduce(values)
    extremes = np.array(ends)
    return float(extremes.min()), float(extremes.max()), x.size - nonzero if spread else None


def key_counts(keys: NDArray[np.uint16]) -> NDArray[np.int64]:
    """Count of each 16-bit integer among at most `CHUNK` keys."""
    if keys.size <= _BINCOUNT_LIMIT:
        return np.bincount(keys, minlength=KEYS)
    counter = thread_counter()
    counter.keys[: keys.size] = keys
    try:
        counter.add(keys.size)
        return counter.counts.astype(np.int64)
    finally:
        counter.counts.fill(0)


@cache
def _spread_keys() -> NDArray[np.uint32]:
    return np.arange(CHUNK, dtype=np.uint32) % CELLS_PER_BINADE


def count_equal(x: FloatArray, value: float) -> int:
    """Number of occurrences of the value in a one-dimensional array."""
    pieces = (x[start : start + CHUNK] for start in range(0, x.size, CHUNK))
    return sum(int(np.count_nonzero(piece == value)) for piece in pieces)
