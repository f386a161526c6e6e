"""Histogram of float32 values whose cells are the bfloat16 numbers, that is the upper 16 bits of a float32.

A bfloat16 has a sign, 8 bits of exponent and 7 bits of mantissa. Every magnitude is resolved to 2^-7 of itself. No
range is needed in advance and no cell is ever rescaled, so merging counts is exact. The 128 cells of one sign and
exponent are a *binade*; a tensor occupies a few dozen of the 512 binades.

Zeros have no cell. They are counted separately, which also makes -0.0 equal to 0. Magnitudes below 2^-133 have the
upper bits of 0, and count as 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import FloatArray

CELLS_PER_BINADE = 128
BINADES = 512
LEAST_MAGNITUDE = 2.0**-133
"""What is nearer to 0 counts as 0."""
_FIRST_NEGATIVE = 256
"""The first binade of the negative numbers."""


@dataclass(frozen=True, eq=False)
class PrefixCounts:
    """Counts of nonzero values by their upper 16 bits.

    Attributes:
        binades: int64, ascending: the upper 9 bits (sign and exponent) of the counted binades.
        counts: int64, shape (binades, 128): the count for each mantissa.
    """

    binades: NDArray[np.int64]
    counts: NDArray[np.int64]

    def __reduce__(self) -> tuple[Any, ...]:
        """Half the bytes where each count fits 32 bits."""
        fits = self.counts.max(initial=0) < 2**32
        return _unpickle, (self.binades, self.counts.astype(np.uint32) if fits else self.counts)

    def make_empty(self) -> PrefixCounts:
        """The same binades without a value."""
        return PrefixCounts(self.binades, np.zeros_like(self.counts))

    def merge(self, other: PrefixCounts) -> PrefixCounts:
        """The sum of both counts."""
        if self.binades is other.binades:
            return PrefixCounts(self.binades, self.counts + other.counts)
        binades = unite_binades(self.binades, other.binades)
        counts = np.zeros((binades.size, CELLS_PER_BINADE), np.int64)
        for each in (self, other):
            counts[np.searchsorted(binades, each.binades)] += each.counts
        return PrefixCounts(binades, counts)

    @property
    def occupied(self) -> int:
        """Number of occupied cells."""
        return int(np.count_nonzero(self.counts))

    def count_cell(self, value: float) -> int:
        """Count of the cell of a nonzero value; 0 if its binade is not counted."""
        binade, mantissa = divmod(int(np.float32(value).view(np.uint32)) >> 16, CELLS_PER_BINADE)
        row = int(np.searchsorted(self.binades, binade))
        found = row < self.binades.size and self.binades[row] == binade
        return int(self.counts[row, mantissa]) if found else 0

    def has_sign(self, *, negative: bool) -> bool:
        """Whether there are values of a sign."""
        first_negative = int(np.searchsorted(self.binades, _FIRST_NEGATIVE))
        return bool(
            (self.counts[first_negative:] if negative else self.counts[:first_negative]).any()
        )

    def to_sparse(self) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
        """The occupied cells, ascending, and their counts."""
        flat = self.counts.reshape(-1)
        occupied = np.flatnonzero(flat)
        gaps = (self.binades - np.arange(self.binades.size)) * CELLS_PER_BINADE
        cells = occupied + gaps[occupied // CELLS_PER_BINADE]
        return cells.astype(np.uint16), flat[occupied]


def _unpickle(binades: NDArray[np.int64], counts: NDArray[np.integer[Any]]) -> PrefixCounts:
    return PrefixCounts(binades, counts.astype(np.int64, copy=False))


def unite_binades(*parts: NDArray[np.int64]) -> NDArray[np.int64]:
    """All binades of the parts, ascending, each once."""
    found = np.zeros(BINADES, np.bool_)
    for part in parts:
        found[part] = True
    return np.flatnonzero(found)


def from_cells(cells: NDArray[np.uint16], counts: NDArray[np.int64]) -> PrefixCounts:
    """Counts from pairs of cell and count; a cell may occur several times."""
    binades, row = np.unique(cells.astype(np.int64) // CELLS_PER_BINADE, return_inverse=True)
    dense = np.zeros((binades.size, CELLS_PER_BINADE), np.int64)
    np.add.at(dense, (row, cells % CELLS_PER_BINADE), counts)
    return PrefixCounts(binades, dense)


def from_values(values: FloatArray, counts: NDArray[np.int64]) -> PrefixCounts:
    """Counts of the cells of values, each with its count; 0 has no cell."""
    nonzero = values != 0
    return from_cells(to_prefixes(values[nonzero]), counts[nonzero])


@cache
def compute_cell_edges() -> NDArray[np.float64]:
    """Lower edge of each nonnegative cell, followed by 2^128, the upper edge of the largest finite cell."""
    exponent, mantissa = np.divmod(np.arange(255 * CELLS_PER_BINADE + 1), CELLS_PER_BINADE)
    leading = np.where(exponent > 0, CELLS_PER_BINADE, 0)
    real = np.ldexp((leading + mantissa).astype(np.float64), np.maximum(exponent, 1) - 134)
    return np.asarray(real, np.float64)


def has_cell_alone(end: float, *, negative: bool) -> bool:
    """Whether no other value of a cell can lie on the same side of a minimum or a maximum that is not 0.

    This is so if all other values lie nearer to 0, and the extreme is its cell's edge nearer to 0.
    """
    return (end < 0) == negative and not int(np.float32(end).view(np.uint32)) & 0xFFFF


def flush_to_zero(x: FloatArray) -> FloatArray:
    """A copy of the values, with 0 for -0.0 and for what counts as 0."""
    return np.where(np.abs(x) < LEAST_MAGNITUDE, np.float32(0), x)


def to_prefixes(x: FloatArray) -> NDArray[np.uint16]:
    """Cell of each value."""
    upper: NDArray[np.uint16] = (x.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return upper
