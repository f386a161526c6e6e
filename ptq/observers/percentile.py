"""Percentile range method: the range that holds p percent of the values.

Values of both signs lose (100 − p) / 2 percent at each end. Values of one sign lose (100 − p) percent at their one
end. For a symmetric scale the threshold is the p-th percentile of the absolute values. An end is interpolated inside
its cell; no end crosses 0.
"""

from __future__ import annotations

import numpy as np

from ptq.core.errors import UsageError
from ptq.core.types import QType, Range
from ptq.observers.histogram_cells import HistogramCells, build_histogram_cells
from ptq.observers.observer import Observer
from ptq.observers.stats import TensorStats


def percentile(p: float = 99.99) -> Observer:
    """An observer that keeps p percent of the values inside the range.

    Raises:
        UsageError: p is not in (0, 100].
    """
    if not 0 < p <= 100:
        raise UsageError(f"percentile {p} is not above 0 and at most 100; a usual value is 99.99")

    def observe(stats: TensorStats, qtype: QType, *, symmetric: bool) -> Range:
        del qtype
        cells = build_histogram_cells(stats)
        least, most = min(cells.lo[0], 0.0), max(cells.hi[-1], 0.0)
        cut = (1 - p / 100) * cells.total_count
        if symmetric:
            threshold = _find_high_end(cells.to_absolute(), cut)
            return Range(max(least, -threshold), min(most, threshold))
        if least < 0 < most:
            cut /= 2
        return Range(-_find_high_end(cells.negate(), cut), _find_high_end(cells, cut))

    return observe


def _find_high_end(cells: HistogramCells, cut: float) -> float:
    """The least nonnegative number above which at most ``cut`` values lie."""
    from_top = np.cumsum(cells.counts[::-1])
    i = min(int(np.searchsorted(from_top, cut, side="right")), from_top.size - 1)
    lo, hi, count = cells.lo[-1 - i], cells.hi[-1 - i], cells.counts[-1 - i]
    inside = min(max((cut - (from_top[i] - count)) / count, 0.0), 1.0)
    return max(float(hi - inside * (hi - lo)), 0.0)
