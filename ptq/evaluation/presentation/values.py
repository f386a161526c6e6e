"""Histograms of tensors with the range of every method, from the statistics of the calibration."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ptq.core.plan import Plan
from ptq.core.targets import get_target
from ptq.core.types import QuantParams
from ptq.core.wording import format_decibels
from ptq.evaluation.report.report_data import ReportData
from ptq.observers import OBSERVERS, TensorStats
from ptq.observers.histogram_cells import build_histogram_cells
from ptq.page.anchors import link_to
from ptq.page.blocks import Figure, Figures
from ptq.page.histogram import Histogram, Threshold, build_histogram
from ptq.page.page import Section

_BINS = 96
_MAX = 1000
"""Histograms of one page: a kilobyte each."""
_WORST = 9


def build_histograms(
    report: ReportData, plan: Plan, statistics: Mapping[str, TensorStats]
) -> dict[str, Histogram]:
    """The histogram of each quantized activation, lowest SQNR first.

    Args:
        report: The report.
        plan: The plan, which holds the chosen ranges.
        statistics: Statistics of the calibration by tensor.
    """
    names = [
        row.name
        for row in report.tensors
        if row.name in plan.tensors and row.name in statistics and statistics[row.name].count
    ]
    symmetric = get_target(plan.target).symmetric_divisor is not None
    return {
        name: _draw(name, statistics[name], plan.tensors[name], str(plan.why[name]), symmetric)
        for name in names[:_MAX]
    }


def build_values(
    report: ReportData, anchors: Mapping[str, str], histograms: Mapping[str, Histogram]
) -> Section:
    """The histograms of the tensors with the lowest SQNR; the graph shows that of any tensor.

    Args:
        report: The report.
        anchors: Identifiers of the nodes in the section of the graph.
        histograms: The histograms by tensor.
    """
    rows = [row for row in report.tensors if row.name in histograms][:_WORST]
    figures = tuple(
        Figure(
            row.name,
            histograms[row.name],
            (f"{format_decibels(row.sqnr_db)} dB, {100 * row.saturation:.3f} % saturated",),
            link_to(anchors, row.node),
        )
        for row in rows
    )
    note = (
        "What calibration saw, and where each method would cut. The solid line is the range of the model; "
        "the graph has the histogram of every tensor."
    )
    title = "Values of the tensors with the lowest SQNR"
    return Section("values", title, [Figures(figures)] if figures else [], note, "Values")


def _draw(
    name: str, stats: TensorStats, params: QuantParams, why: str, symmetric: bool
) -> Histogram:
    lo, hi = min(stats.min, 0.0), max(stats.max, 0.0)
    if lo == hi:
        hi = lo + 1.0
    lowest = params.scale.astype(np.float64) * (params.qtype.lo - params.zero_point)
    highest = params.scale.astype(np.float64) * (params.qtype.hi - params.zero_point)
    chosen = Threshold("chosen", float(np.min(lowest)), float(np.max(highest)), chosen=True)
    thresholds = [chosen]
    for method, observer in OBSERVERS.items():
        found = observer(stats, params.qtype, symmetric=symmetric)
        ends = float(np.min(found.lo)), float(np.max(found.hi))
        if symmetric:
            ends = -max(map(abs, ends)), max(map(abs, ends))
        thresholds.append(Threshold(method, *ends))
    label = f"Histogram of {name}; chosen range {chosen.lo:.3g} … {chosen.hi:.3g}, {why}"
    return build_histogram(label, lo, hi, count_bins(stats, lo, hi, _BINS), thresholds)


def count_bins(stats: TensorStats, lo: float, hi: float, bins: int) -> list[float]:
    """Number of values in ``bins`` equal intervals from ``lo`` to ``hi``."""
    cells = build_histogram_cells(stats)
    edges = np.linspace(lo, hi, bins + 1)
    points = cells.take(cells.is_point)
    spread = cells.take(~cells.is_point)
    counts, _ = np.histogram(points.lo, edges, weights=points.counts)
    if spread.lo.size:
        width = spread.hi - spread.lo
        below = np.clip((edges[:, None] - spread.lo) / width, 0.0, 1.0) @ spread.counts
        counts = counts + np.diff(below)
    return [float(count) for count in counts]
