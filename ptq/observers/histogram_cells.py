"""Statistics as counts on intervals of real numbers, the form in which every range method reads them.

The count of a cell is spread evenly over it. The outermost cells end at the observed minimum and maximum. Values
equal to 0, to the minimum or to the maximum are points; after a ReLU6 these are half of all values. If the
statistics hold distinct values, all of them are points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import StatsError
from ptq.observers.bfloat16_histogram import compute_cell_edges, to_prefixes
from ptq.observers.stats import TensorStats


@dataclass(frozen=True, eq=False)
class HistogramCells:
    """Counts of values on ascending intervals that overlap at most in their ends.

    Attributes:
        lo: float64, the low end of each interval. If it equals ``hi``, the interval is a point.
        hi: float64, the high end of each interval.
        counts: float64, positive, the number of values in each interval.
    """

    lo: NDArray[np.float64]
    hi: NDArray[np.float64]
    counts: NDArray[np.float64]

    @property
    def total_count(self) -> float:
        """Number of all values."""
        return float(self.counts.sum())

    @property
    def is_point(self) -> NDArray[np.bool_]:
        """Which intervals are points."""
        points: NDArray[np.bool_] = self.lo == self.hi
        return points

    def take(self, which: NDArray[np.bool_]) -> HistogramCells:
        """The selected intervals."""
        return HistogramCells(self.lo[which], self.hi[which], self.counts[which])

    def negate(self) -> HistogramCells:
        """Cells of the negated values."""
        return HistogramCells(-self.hi[::-1], -self.lo[::-1], self.counts[::-1])

    def to_absolute(self) -> HistogramCells:
        """Cells of the absolute values. Two overlapping cells are cut at each other's ends."""
        ends = np.sort(np.abs([self.lo, self.hi]), axis=0)  # no interval has 0 in its interior
        cuts = np.unique(ends)
        start, stop = np.searchsorted(cuts, ends)
        pieces = stop - start
        into = np.repeat(start - np.cumsum(pieces) + pieces, pieces) + np.arange(pieces.sum())
        width = np.where(pieces > 0, ends[1] - ends[0], 1.0)
        spread = np.repeat(self.counts / width, pieces) * np.diff(cuts)[into]
        at = np.bincount(start[pieces == 0], self.counts[pieces == 0], cuts.size)
        lo, hi = np.concatenate([cuts, cuts[:-1]]), np.concatenate([cuts, cuts[1:]])
        counts = np.concatenate([at, np.bincount(into, spread, cuts.size - 1)])
        order = np.lexsort((hi, lo))
        return HistogramCells(lo[order], hi[order], counts[order]).take(counts[order] > 0)


def require_values(stats: TensorStats) -> None:
    """Raises StatsError if the tensor has no finite value."""
    if stats.count == 0:
        raise StatsError(
            "no finite value was observed; calibrate with samples that reach this tensor"
        )


def build_histogram_cells(stats: TensorStats) -> HistogramCells:
    """Intervals that hold the tensor's finite values.

    Raises:
        StatsError: The tensor has no finite value.
    """
    require_values(stats)
    if stats.values is not None:
        values = stats.values.astype(np.float64)
        return HistogramCells(values, values, stats.value_counts.astype(np.float64))
    prefix, counts = stats.cell_counts()
    counts = counts.copy()
    magnitude = prefix & np.uint16(0x7FFF)
    near, far = compute_cell_edges()[magnitude], compute_cell_edges()[magnitude + np.uint16(1)]
    negative = prefix >= 0x8000
    lo = np.maximum(np.where(negative, -far, near), float(stats.min))
    hi = np.minimum(np.where(negative, -near, far), float(stats.max))
    atoms = [(0.0, stats.zeros)]
    for end, count in ((stats.min, stats.at_min), (stats.max, stats.at_max)):
        if end != 0:
            atoms.append((float(end), count))
            counts[prefix == to_prefixes(np.array([end], np.float32))] -= count
    at = np.array([position for position, _ in atoms])
    lo, hi = np.concatenate([lo, at]), np.concatenate([hi, at])
    counts = np.concatenate([counts, np.array([count for _, count in atoms])])
    order = np.lexsort((hi, lo))
    return HistogramCells(lo[order], hi[order], counts[order].astype(np.float64)).take(
        counts[order] > 0
    )
