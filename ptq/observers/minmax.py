"""Minmax range method: the range of all observed values."""

from __future__ import annotations

from ptq.core.types import QType, Range
from ptq.observers.histogram_cells import require_values
from ptq.observers.stats import TensorStats


def minmax(stats: TensorStats, qtype: QType, *, symmetric: bool) -> Range:
    """The smallest range that contains all finite values and 0.

    Raises:
        StatsError: The tensor has no finite value.
    """
    # the range is the same for every type, and the solver makes the scale symmetric
    del qtype, symmetric
    require_values(stats)
    return Range(min(stats.min, 0.0), max(stats.max, 0.0))
