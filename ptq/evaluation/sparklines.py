"""Histograms of the tensors with the lowest SQNR as lines of blocks, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ptq.evaluation.presentation.values import count_bins
from ptq.evaluation.report.report_data import ReportData
from ptq.observers.stats import TensorStats

_BLOCKS = " ▁▂▃▄▅▆▇█"
_BINS = 12


def draw_sparklines(
    report: ReportData, statistics: Mapping[str, TensorStats], shown: int | None
) -> dict[str, str]:
    """The values of each of the worst activations: twelve intervals from its least to its largest value.

    The heights are logarithms of counts.

    Args:
        report: The report.
        statistics: Statistics of the calibration by tensor.
        shown: How many tensors are shown; None for all.
    """
    drawn = {}
    for row in report.tensors[:shown]:
        stats = statistics.get(row.name)
        if stats is not None and stats.count and stats.min < stats.max:
            heights = np.log1p(count_bins(stats, stats.min, stats.max, _BINS))
            steps = np.ceil(heights / heights.max() * (len(_BLOCKS) - 1)).astype(int)
            drawn[row.name] = "".join(_BLOCKS[step] for step in steps)
    return drawn
