"""Section: the result of each node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ptq.core.wording import describe_islands, explain_floats
from ptq.evaluation.presentation.report_wording import NOTHING_QUANTIZED, count_nodes
from ptq.evaluation.report.report_data import NodeRow, ReportData
from ptq.page.anchors import link_to
from ptq.page.blocks import Cell, Column, Lines, Table
from ptq.page.page import Section

COLUMNS = (
    Column("#", True),
    Column("node", wide=True),
    Column("operator"),
    Column("result"),
    Column("why", wide=True),
)


def build_nodes(report: ReportData, anchors: Mapping[str, str]) -> Section:
    """All nodes in graph order, and the reasons for float in short.

    Args:
        report: The report.
        anchors: Identifiers of the nodes in the section of the graph.
    """
    reasons = explain_floats((row.op, row.why) for row in report.nodes if row.fate == "float")
    lines = (*reasons, *describe_islands(report.islands))
    blocks: list[object] = [Lines(lines)] if lines else []
    if report.nodes and all(row.fate == "float" for row in report.nodes):
        blocks.insert(0, Lines((NOTHING_QUANTIZED,), "warn"))
    table = Table("node-table", COLUMNS, tabulate_nodes(report.nodes, anchors), choices=3)
    blocks += [table] if report.nodes else []
    return Section("nodes", count_nodes(report.nodes), blocks, short="Nodes")


def tabulate_nodes(
    rows: Sequence[NodeRow], anchors: Mapping[str, str]
) -> tuple[tuple[Cell, ...], ...]:
    """The cells of each node."""
    return tuple(
        (
            Cell(str(number), number),
            Cell(row.name, link=link_to(anchors, row.name)),
            Cell(row.op),
            Cell(row.fate, tone=row.fate),
            Cell(row.why),
        )
        for number, row in enumerate(rows, 1)
    )
