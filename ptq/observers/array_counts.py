"""Zeros, extremes and cell counts of an array, in one pass through chunks that fit the cache.

The extremes are compared with those of other arrays chunk by chunk, so only values that reach these are counted. For
an extreme of 0, as after a ReLU, the cells tell whether any value lies beyond it. Beyond the bound of a Clip lies
none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import FloatArray
from ptq.observers.bfloat16_histogram import (
    BINADES,
    CELLS_PER_BINADE,
    LEAST_MAGNITUDE,
    PrefixCounts,
    has_cell_alone,
    unite_binades,
)
from ptq.observers.key_counter import CHUNK, LANES, get_thread_counter

_SPARE_BINADES = 2
"""Binades that are counted in advance: a search for further ones takes longer."""
_NO_NUMBERS = [BINADES // 2 - 1, BINADES - 1]
"""The binades of NaN and of the infinities."""


@dataclass(frozen=True, eq=False)
class Likely:
    """What the values of an array are likely to be. It changes the speed of counting only, never the result.

    Attributes:
        binades: Occupied binades. The counts contain them even if they are empty.
        zeros: Share of the values that are 0.
    """

    binades: NDArray[np.int64]
    zeros: float

    @property
    def many_zeros(self) -> bool:
        """Whether so many values are 0 that their additions would wait for each other."""
        return self.zeros > 1 / 8


class End:
    """The least or the greatest value of the arrays so far and of one more, and its count in that one.

    Attributes:
        value: The value; 0 for what counts as 0.
        count: Its count, unless the zeros or the cells determine it.
        is_final: Whether neither the value nor the count can change: no value lies beyond ``bound``.
    """

    def __init__(self, so_far: float, *, negative: bool, bound: float) -> None:
        self.value, self.count, self.negative = so_far, 0, negative
        self.is_final = so_far == bound and has_cell_alone(bound, negative=negative)
        self._reduce = np.minimum.reduce if negative else np.maximum.reduce

    def add(self, values: FloatArray) -> None:
        """Add a chunk without NaN; with it, the result is meaningless."""
        value = float(self._reduce(values))
        if abs(value) < LEAST_MAGNITUDE:
            value = 0.0
        if value < self.value if self.negative else value > self.value:
            self.value, self.count = value, 0
        if value == self.value and not (
            value == 0 or has_cell_alone(value, negative=self.negative)
        ):
            self.count += _count_equal(values, np.float32(value))


@dataclass(frozen=True, eq=False)
class ArrayCounts:
    """What one pass over the values of an array finds.

    Attributes:
        zeros: Number of values that count as 0.
        cells: Counts of the nonzero values by cell.
        is_finite: Whether the array holds neither NaN nor infinities.
    """

    zeros: int
    cells: PrefixCounts
    is_finite: bool

    def count_end(self, end: End) -> int:
        """Count of an end in the array."""
        if end.value == 0:
            return self.zeros
        if has_cell_alone(end.value, negative=end.negative):
            return self.cells.count_cell(end.value)
        return end.count


def count_array(x: FloatArray, likely: Likely, ends: Sequence[End]) -> ArrayCounts:
    """Zeros, extremes and cell counts of an array, in one pass through chunks that fit the cache.

    Args:
        x: One-dimensional and contiguous, not empty, fewer than 2^31 values.
        likely: What its values are likely to be.
        ends: The extremes so far, to which those of the array are added. Without NaN or infinities.
    """
    counter = get_thread_counter()
    inner = [end for end in ends if end.value == 0]
    try:
        _fill(x, likely, [end for end in ends if end.value != 0 and not end.is_final])
        counted = _evaluate(x.size, counter.counts, likely)
    except BaseException:
        counter.counts.fill(0)
        raise
    for end in inner:  # the cells tell whether there are values beyond 0
        if counted.cells.has_sign(negative=end.negative):
            for values in _split(x):
                end.add(values)
    return counted


def _fill(x: FloatArray, likely: Likely, ends: Sequence[End]) -> None:
    """Count the keys of all values, and add them to the extremes."""
    counter = get_thread_counter()
    for values in _split(x):
        np.right_shift(values.view(np.uint32), np.uint32(16), out=counter.keys[: values.size])
        counter.add(values.size, spread=likely.many_zeros)
        for end in ends:
            end.add(values)


def _evaluate(size: int, counts: NDArray[np.int32], likely: Likely) -> ArrayCounts:
    """Separate zeros from the counts of so many values, and set the counts to 0."""
    dense = counts[: LANES if likely.many_zeros else 1].reshape(-1, BINADES, CELLS_PER_BINADE)
    of_zeros = dense[:, :: BINADES // 2, 0]  # of either sign
    zeros = int(of_zeros.sum())
    of_zeros[:] = 0
    binades, is_finite = likely.binades, True
    found = dense[:, binades].sum(axis=0, dtype=np.int64)
    if int(found.sum()) != size - zeros:
        binades = unite_binades(binades, _find_binades(dense))
        found = dense[:, binades].sum(axis=0, dtype=np.int64)
        is_finite = not dense[:, _NO_NUMBERS].any()
    dense[:, binades] = 0
    return ArrayCounts(zeros, PrefixCounts(binades, found), is_finite)


def _find_binades(dense: NDArray[np.int32]) -> NDArray[np.int64]:
    """The occupied binades and some nearer to 0, into which the least magnitudes of further arrays may fall."""
    found: NDArray[np.bool_] = np.any(dense, axis=(0, 2)).reshape(2, -1)
    found[:, :-_SPARE_BINADES] |= found[:, _SPARE_BINADES:]
    return np.flatnonzero(found)


def _split(x: FloatArray) -> Iterator[FloatArray]:
    return (x[start : start + CHUNK] for start in range(0, x.size, CHUNK))


def _count_equal(chunk: FloatArray, value: np.float32) -> int:
    flags = get_thread_counter().flags[: chunk.size]
    return int(np.count_nonzero(np.equal(chunk, value, out=flags)))
