"""Sections: the trade of speed against error, and the nodes that cause the error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ptq.core.wording import format_decibels, plural
from ptq.evaluation.frontier import FrontierPoint, FrontierReport
from ptq.evaluation.presentation.estimate_wording import describe_frontier
from ptq.evaluation.report.report_data import ReportData
from ptq.page.anchors import link_to
from ptq.page.blocks import Cell, Column, Lines, Table
from ptq.page.page import Section
from ptq.page.plot import Point, build_plot

_NODES = (Column("node"), Column("operator"), Column("result"), Column("% of the error", True))
_COLUMNS = (
    Column("point", True),
    Column("float for error", True),
    Column("speed × float", True),
    Column("SQNR dB", True),
    Column("speed measured", True),
    Column("SQNR measured", True),
    Column("float for error, more than the point before", wide=True),
)
MAX_NAMES = 3
"""Node names of one step that the table shows; the JSON document lists all."""
_LEGEND = (("estimated", "estimated"), ("chosen", "chosen by the rule"))


def build_trade(report: ReportData, anchors: Mapping[str, str]) -> tuple[Section, ...]:
    """The curve that a quantization estimated, and the share of the error of each node.

    Args:
        report: The report.
        anchors: Identifiers of the nodes in the section of the graph.
    """
    frontier = report.frontier
    if frontier is None or not frontier.points:
        return ()
    further = list(_list_measured_points(report))
    plot = _draw_plot(frontier.points, further, "this model, measured")
    note = (
        "The first point leaves no node float for its error. The others stand in the order of their estimated time; "
        "more time brings less error. Estimated from "
        f"{plural(frontier.runs, 'run')} on {plural(frontier.samples, 'sample')} and a table of times; "
        f"prefer {frontier.prefer}. ptq frontier measures points and writes any of them."
    )
    table = Table("frontier-table", *_tabulate(frontier.points))
    rows = {row.name: row for row in report.nodes}
    most = max(frontier.error_shares.values(), default=1.0) or 1.0
    shares = tuple(
        (
            Cell(node, link=link_to(anchors, node)),
            Cell(rows[node].op if node in rows else ""),
            Cell(
                rows[node].fate if node in rows else "",
                tone=rows[node].fate if node in rows else "",
            ),
            Cell(f"{100 * share:.1f}", share, bar=share / most),
        )
        for node, share in frontier.error_shares.items()
    )
    sensitivity = (
        "Estimated share of the output's error that the roundings of each node cause, all nodes in int8. "
        "ptq sensitivity measures the gain of keeping nodes in float."
    )
    shown = Table("share-table", _NODES, shares)
    return (
        Section("frontier", "Speed against error", [plot, table], note, "Frontier"),
        Section("error-shares", "Where the error comes from", [shown], sensitivity, "Sensitivity"),
    )


def build_frontier(report: FrontierReport) -> tuple[Section, ...]:
    """The curve of ``ptq.frontier``, with its measured points."""
    measured = [
        Point(p.measured_speed, p.measured_sqnr_db, f"point {p.number}, measured", "measured")
        for p in report.points
        if p.measured_speed is not None and p.measured_sqnr_db is not None
    ]
    table = Table("frontier-table", *_tabulate(report.points))
    blocks = [_draw_plot(report.points, measured), Lines(tuple(describe_frontier(report))), table]
    return (Section("frontier", "Speed against error, estimated", blocks, short="Frontier"),)


def _list_measured_points(report: ReportData) -> Iterator[Point]:
    if report.speed is None or report.evaluation is None:
        return
    fidelity = report.evaluation.forms["int8"].outputs[report.evaluation.head]
    text = (
        f"this model, measured: {report.speed:.2f}× float, {format_decibels(fidelity.sqnr_db)} dB"
    )
    yield Point(report.speed, fidelity.sqnr_db, text, "measured")


def _draw_plot(
    points: Sequence[FrontierPoint], measured: Sequence[Point], meaning: str = "measured"
) -> object:
    curve = [
        Point(
            p.speed,
            p.sqnr_db,
            f"point {p.number}: {p.speed:.2f}× float, {format_decibels(p.sqnr_db)} dB, "
            f"{plural(len(p.floats), 'float node')}",
            "estimated",
            label=str(p.number),
        )
        for p in points
    ]
    chosen = [Point(p.speed, p.sqnr_db, "chosen by the rule", "chosen") for p in points if p.chosen]
    return build_plot(
        "SQNR over speed of each point of the frontier",
        "speed relative to float",
        "SQNR, dB",
        [*curve, *measured, *chosen],
        line=curve,
        legend=(*_LEGEND, *([("measured", meaning)] if measured else [])),
    )


def _tabulate(
    points: Sequence[FrontierPoint],
) -> tuple[tuple[Column, ...], tuple[tuple[Cell, ...], ...]]:
    rows = [
        (
            Cell(f"{'→ ' if p.chosen else ''}{p.number}", p.number),
            Cell(str(len(p.floats)), len(p.floats)),
            Cell(f"{p.speed:.2f}", p.speed),
            Cell(format_decibels(p.sqnr_db), p.sqnr_db),
            Cell("" if p.measured_speed is None else f"{p.measured_speed:.2f}", p.measured_speed),
            Cell("" if p.measured_sqnr_db is None else format_decibels(p.measured_sqnr_db), p.measured_sqnr_db),
            Cell(_describe_step(before, p)),
        )
        for before, p in zip((None, *points), points, strict=False)
    ]  # fmt: skip
    kept = [k for k in range(len(_COLUMNS)) if any(row[k].text for row in rows)]
    return tuple(_COLUMNS[k] for k in kept), tuple(tuple(row[k] for k in kept) for row in rows)


def _describe_step(before: FrontierPoint | None, point: FrontierPoint) -> str:
    known = set() if before is None else set(before.floats)
    more = _join_names([name for name in point.floats if name not in known])
    fewer = _join_names(sorted(known - set(point.floats)))
    return (
        "; without ".join(filter(None, (more, fewer)))
        if more
        else f"without {fewer}"
        if fewer
        else ""
    )


def _join_names(names: Sequence[str]) -> str:
    """The first names, and how many more: a row of dozens would be higher than the screen of a phone."""
    rest = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {rest} more" if rest > 0 else "")
