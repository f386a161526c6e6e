"""Sections of the page of a sensitivity ranking."""

from __future__ import annotations

from collections.abc import Iterator

from ptq.core.wording import format_change, format_decibels, plural
from ptq.evaluation.drop import describe_drop
from ptq.evaluation.presentation.estimate_wording import describe_ranking
from ptq.evaluation.ranking import NodeCost, Ranking
from ptq.evaluation.task_wording import describe_task
from ptq.page.blocks import Cell, Column, Lines, Table
from ptq.page.page import Section

_COLUMNS = (
    Column("#", True),
    Column("node"),
    Column("operator"),
    Column("quantized tensor"),
    Column("% of the error", True),
    Column("SQNR gain dB, estimated", True),
    Column("SQNR gain dB, measured", True),
    Column("gain together with rows above", True),
    Column("float together with", wide=True),
)


def build_ranking(ranking: Ranking) -> tuple[Section, ...]:
    """All nodes by the gain from keeping each in float, and how it was found."""
    most = max((cost.share for cost in ranking.nodes), default=0.0) or 1.0
    rows = tuple(_format_cells(number, cost, most) for number, cost in enumerate(ranking.nodes, 1))
    note = (
        "The bar is the estimated share of the output error that vanishes if the node stays float."
    )
    table = Table("ranking", _COLUMNS, rows, choices=2)
    anchors = tuple(f"rank-{number}" for number in range(1, len(rows) + 1))
    table = Table(table.name, table.columns, table.rows, table.choices, anchors)
    return (
        Section("ranking-of-nodes", "Gain from keeping each node in float", [table], note),
        Section("measurement", "How it was measured", [Lines(tuple(_list_facts(ranking)))]),
    )


def _format_cells(number: int, cost: NodeCost, most: float) -> tuple[Cell, ...]:
    return (
        Cell(str(number), number),
        Cell(cost.node),
        Cell(cost.op),
        Cell(cost.rounds),
        Cell(f"{100 * cost.share:.1f}", cost.share, bar=max(0.0, cost.share / most)),
        Cell(format_decibels(cost.won_db), cost.won_db),
        Cell(_format_gain(cost.measured_db), cost.measured_db),
        Cell(_format_gain(cost.together_db), cost.together_db),
        Cell(", ".join(cost.along)),
    )


def _format_gain(decibels: float | None) -> str:
    return "" if decibels is None else format_change(decibels, 1)


def _list_facts(ranking: Ranking) -> Iterator[str]:
    yield f"target {ranking.target}, on {plural(ranking.samples, 'sample')}"
    yield f"int8: SQNR {format_decibels(ranking.sqnr_db)} dB; {describe_drop(ranking.drop)}"
    yield from describe_ranking(ranking)
    if ranking.labels is not None:
        yield str(ranking.labels)
    yield from describe_task(ranking.task)
