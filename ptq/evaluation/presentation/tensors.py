"""Section: quantization error of each tensor, along the graph and as a table."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ptq.core.wording import format_decibels, plural
from ptq.evaluation.report.report_data import ReportData, TensorRow
from ptq.page.anchors import link_to
from ptq.page.blocks import Cell, Column, Table
from ptq.page.page import Section
from ptq.page.plot import Point, build_plot

_COLUMNS = (
    Column("tensor", wide=True),
    Column("kind"),
    Column("SQNR dB", True),
    Column("rounding, %", True),
    Column("clipping %", True),
    Column("saturated %", True),
    Column("range", True),
    Column("why", wide=True),
)
_FULL_BAR_DB = 60.0


def build_tensors(report: ReportData, anchors: Mapping[str, str]) -> Section:
    """The plot of SQNR along the graph, and all tensors, lowest SQNR first.

    Args:
        report: The report.
        anchors: Identifiers of the nodes in the section of the graph.
    """
    if not report.tensors:
        return Section("tensors", "Tensors", [])
    rows = tuple(_format_cells(row, anchors) for row in report.tensors)
    note = (
        "SQNR: energy of the values over energy of the error; 6 dB more means half the error. "
        "Lowest SQNR first; much clipping means a narrow range, much rounding a wide one."
    )
    blocks = [_draw_plot(report, anchors), Table("tensor-table", _COLUMNS, rows, choices=1)]
    title = f"{plural(len(report.tensors), 'tensor')} by SQNR"
    return Section("tensors", title, blocks, note, "Tensors")


def _format_cells(row: TensorRow, anchors: Mapping[str, str]) -> tuple[Cell, ...]:
    finite = row.sqnr_db if math.isfinite(row.sqnr_db) else 999.0
    return (
        Cell(row.name, link=link_to(anchors, row.node)),
        Cell(row.kind),
        Cell(format_decibels(row.sqnr_db), finite, bar=min(1.0, max(0.0, finite / _FULL_BAR_DB))),
        Cell(f"{100 * row.rounding:.0f}", row.rounding),
        Cell(f"{100 * (1 - row.rounding):.0f}", 1 - row.rounding),
        Cell(f"{100 * row.saturation:.3f}", row.saturation),
        Cell(f"{row.lo:.3g} … {row.hi:.3g}", row.hi - row.lo),
        Cell(row.why),
    )


def _draw_plot(report: ReportData, anchors: Mapping[str, str]) -> object:
    order = {row.name: number for number, row in enumerate(report.nodes)}
    placed = sorted(report.tensors, key=lambda row: (order.get(row.node, -1), row.kind, row.name))
    points = [
        Point(
            float(order.get(row.node, -1)),
            row.sqnr_db,
            f"{row.name}: {format_decibels(row.sqnr_db)} dB",
            row.kind,
            link_to(anchors, row.node),
        )
        for row in placed
    ]
    return build_plot(
        "SQNR of each tensor along the graph",
        "nodes in graph order →",
        "SQNR, dB",
        points,
        line=[point for point in points if point.style == "activation"],
        legend=[("activation", "activation"), ("weight", "weight")],
        numbered=False,
    )
