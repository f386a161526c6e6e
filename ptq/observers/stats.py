"""Statistics of one tensor, from which every range method can choose a range afterwards.

They hold the exact minimum and maximum, and the counts of 0, of the minimum and of the maximum. NaN and infinities
are counted and otherwise ignored. While there are at most 1024 distinct values, each is kept with its count. After
that, values are counted by their upper 16 bits (see `bfloat16_histogram`). Only integer addition, minimum, maximum
and union occur. The statistics are therefore the same, bit for bit, for every order, batch size and sharding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import StatsError
from ptq.core.types import FloatArray
from ptq.observers.array_counts import End, Likely, count_array
from ptq.observers.bfloat16_histogram import PrefixCounts, from_cells, from_values
from ptq.observers.distinct_values import MAX_DISTINCT, count_distinct_values
from ptq.observers.npz_bytes import have_equal_arrays
from ptq.observers.range_cache import RangeCache

_MAX_PIECE = 1 << 30
"""Values counted at once. The cell counts of one piece are int32."""
_GUESSED = 1 << 10
"""Values of the first array from which the share of zeros is guessed."""
UNBOUNDED = -math.inf, math.inf
_DAMAGED = "statistics are damaged ({}); calibrate again"


class TensorStats:
    """Statistics of one tensor, accumulated by `update` and `merge`.

    Distinct objects may be updated from distinct threads.

    Attributes:
        count: Number of finite values.
        zeros: Number of values that count as 0: of magnitude below 2^-133.
        min: Least finite value; +inf before the first. ``at_min`` is its count.
        max: Greatest finite value; -inf before the first. ``at_max`` is its count.
        nan: Number of NaNs. ``pos_inf`` and ``neg_inf`` are the numbers of infinities.
        values: float32, ascending: the distinct values, 0 for what counts as 0; None after there were more than 1024.
        value_counts: int64, the count of each of ``values``.
        ranges: Ranges chosen so far; `update` empties it. It is neither compared, merged nor saved.
    """

    def __init__(self, bounds: tuple[float, float] = UNBOUNDED) -> None:
        """Statistics of no value. That none lies beyond the bounds changes the speed only."""
        self._bounds = bounds
        self.count = self.zeros = self.at_min = self.at_max = 0
        self.nan = self.pos_inf = self.neg_inf = 0
        self.min, self.max = math.inf, -math.inf
        self.values: FloatArray | None = np.empty(0, np.float32)
        self.value_counts: NDArray[np.int64] = np.empty(0, np.int64)
        self.ranges = RangeCache()
        self._prefixes = from_cells(np.empty(0, np.uint16), np.empty(0, np.int64))

    @property
    def nonfinite_count(self) -> int:
        """Number of NaNs and infinities."""
        return self.nan + self.pos_inf + self.neg_inf

    def cell_counts(self) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
        """Occupied cells of the nonzero values, ascending as integers, and their counts."""
        return self._all_prefixes().to_sparse()

    def expect_merge(self, earlier: TensorStats) -> None:
        """Begin with the extremes and binades of earlier statistics; these, empty now, must be merged with them."""
        self.min, self.max = earlier.min, earlier.max
        if earlier.values is None:
            self.values, self._prefixes = None, earlier._prefixes.make_empty()

    def update(self, x: NDArray[Any]) -> None:
        """Count the values of one array of any shape, as float32."""
        with np.errstate(over="ignore"):  # a float64 above the largest float32 counts as infinite
            array = np.ascontiguousarray(x, np.float32)
        if array.size == 0:
            return
        self.ranges.clear()
        flat = array.reshape(-1)
        for start in range(0, flat.size, _MAX_PIECE):
            self._count(flat[start : start + _MAX_PIECE])

    def merge(self, other: TensorStats) -> TensorStats:
        """The statistics of both; neither is changed."""
        both = copy(self)  # no update changes an array
        both.ranges = RangeCache()
        both.nan += other.nan
        both.pos_inf += other.pos_inf
        both.neg_inf += other.neg_inf
        both._record_extreme(other.min, other.at_min, negative=True)
        both._record_extreme(other.max, other.at_max, negative=False)
        both.count += other.count
        both.zeros += other.zeros
        if both.values is not None and other.values is not None:
            both._add_values(other.values, other.value_counts)
        else:
            both._add_prefixes(other._all_prefixes())
        return both

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorStats):
            return NotImplemented
        return have_equal_arrays(self.to_arrays(), other.to_arrays())

    def __repr__(self) -> str:
        return f"TensorStats({self.count} values in [{self.min}, {self.max}])"

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The statistics as named arrays; equal statistics give equal arrays."""
        tally = [self.count, self.zeros, self.at_min, self.at_max]
        tally += [self.nan, self.pos_inf, self.neg_inf]
        arrays: dict[str, NDArray[Any]] = {
            "tally": np.array(tally, np.int64),
            "extremes": np.array([self.min, self.max], np.float32),
        }
        if self.values is not None:
            arrays |= {"values": self.values, "counts": self.value_counts}
        else:
            cells, counts = self.cell_counts()
            arrays |= {"cells": cells, "counts": counts}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> TensorStats:
        """The inverse of `to_arrays`.

        Raises:
            StatsError: The arrays are not the statistics of one tensor.
        """
        try:
            stats = cls()
            tally = [int(n) for n in arrays["tally"]]
            stats.count, stats.zeros, stats.at_min, stats.at_max = tally[:4]
            stats.nan, stats.pos_inf, stats.neg_inf = tally[4:]
            stats.min, stats.max = (float(end) for end in arrays["extremes"].astype(np.float32))
            counts = arrays["counts"].astype(np.int64, casting="safe")
            if "values" in arrays:
                stats.values = arrays["values"].astype(np.float32, casting="safe")
                stats.value_counts = counts
                keys: NDArray[Any] = stats.values
                finite = np.isfinite(keys)
            else:
                stats.values = None
                keys = arrays["cells"].astype(np.uint16, casting="safe")
                finite = keys & 0x7FFF < 0x7F80
                stats._prefixes = from_cells(keys, counts)
        except (KeyError, ValueError, TypeError, IndexError) as error:
            raise StatsError(_DAMAGED.format(error)) from None
        counted = int(counts.sum()) + (stats.zeros if stats.values is None else 0)
        consistent = (
            keys.shape == counts.shape
            and bool(np.all(finite) and np.all(counts > 0) and np.all(keys[1:] > keys[:-1]))
            and min(tally) >= 0
            and counted == stats.count
            and (stats.count > 0) == (-math.inf < stats.min <= stats.max < math.inf)
        )
        if not consistent:
            raise StatsError(_DAMAGED.format("counts contradict each other"))
        return stats

    def _count(self, flat: FloatArray) -> None:
        is_first = self.values is not None and not self.count and flat.size > MAX_DISTINCT
        if self.values is not None and not is_first:
            flat = self._drop_nonfinite(flat)
            if self._try_values(flat):
                return
        if flat.size == 0:
            return
        likely, ends = self._guess(flat), self._ends()
        added = count_array(flat, likely, ends)
        if not added.is_finite:
            flat, ends = self._drop_nonfinite(flat), self._ends()
            if flat.size == 0:
                return
            added = count_array(flat, likely, ends)
        if is_first and added.cells.occupied <= MAX_DISTINCT and self._try_values(flat):
            return
        for end in ends:
            self._record_extreme(end.value + 0.0, added.count_end(end), negative=end.negative)
        self.count += flat.size
        self.zeros += added.zeros
        self._add_prefixes(added.cells)

    def _ends(self) -> list[End]:
        lo, hi = self._bounds
        return [End(self.min, negative=True, bound=lo), End(self.max, negative=False, bound=hi)]

    def _guess(self, flat: FloatArray) -> Likely:
        if self.count:
            return Likely(self._all_prefixes().binades, self.zeros / self.count)
        some = flat[:: -(-flat.size // _GUESSED)]
        return Likely(self._prefixes.binades, 1 - np.count_nonzero(some) / some.size)

    def _try_values(self, flat: FloatArray) -> bool:
        """Count finite values if there are few distinct ones; return whether it did."""
        if self.values is None or flat.size == 0:
            return False
        if (few := count_distinct_values(flat, self.values)) is not None:
            self._count_values(*few)
        return few is not None

    def _drop_nonfinite(self, flat: FloatArray) -> FloatArray:
        """Count NaN and infinities, and return the finite values."""
        if flat.size == 0 or np.isfinite([np.minimum.reduce(flat), np.maximum.reduce(flat)]).all():
            return flat
        finite = np.isfinite(flat)
        self.nan += int(np.count_nonzero(np.isnan(flat)))
        self.pos_inf += int(np.count_nonzero(flat == np.inf))
        self.neg_inf += int(np.count_nonzero(flat == -np.inf))
        return flat[finite]

    def _count_values(self, values: FloatArray, counts: NDArray[np.int64]) -> None:
        occurring = np.flatnonzero(counts)
        if occurring.size:
            first, last = occurring[0], occurring[-1]
            self._record_extreme(float(values[first]), int(counts[first]), negative=True)
            self._record_extreme(float(values[last]), int(counts[last]), negative=False)
        self.count += int(counts.sum())
        self.zeros += int(counts[values == 0].sum())
        self._add_values(values, counts)

    def _record_extreme(self, end: float, count: int, *, negative: bool) -> None:
        """Update one extreme with the extreme of one array and its count."""
        if negative and end <= self.min:
            self.at_min, self.min = count + (self.at_min if end == self.min else 0), end
        if not negative and end >= self.max:
            self.at_max, self.max = count + (self.at_max if end == self.max else 0), end

    def _add_values(self, values: FloatArray, counts: NDArray[np.int64]) -> None:
        if self.values is None:
            self._add_prefixes(from_values(values, counts))
            return
        if values is self.values:
            self.value_counts = self.value_counts + counts
            return
        union = np.union1d(self.values, values)
        total = np.zeros(union.size, np.int64)
        total[np.searchsorted(union, self.values)] += self.value_counts
        total[np.searchsorted(union, values)] += counts
        self.values, self.value_counts = union, total
        if union.size > MAX_DISTINCT:
            self._prefixes = self._all_prefixes()
            self.values, self.value_counts = None, np.empty(0, np.int64)

    def _add_prefixes(self, counts: PrefixCounts) -> None:
        self._prefixes = self._all_prefixes().merge(counts)
        self.values, self.value_counts = None, np.empty(0, np.int64)

    def _all_prefixes(self) -> PrefixCounts:
        known = self.values
        return self._prefixes if known is None else from_values(known, self.value_counts)
