"""Accuracy drops, budgets, budget searches and sensitivity rankings on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType

from ptq.core.wording import format_change, format_decibels, plural
from ptq.evaluation.drop import describe_drop
from ptq.evaluation.presentation.estimate_wording import describe_ranking
from ptq.evaluation.presentation.report_wording import SEARCH_TITLE, describe_search
from ptq.evaluation.task_wording import describe_task

from ..one_line import to_one_line
from .screen import (
    format_applied,
    format_heading,
    format_paragraph,
    format_table,
    format_warnings,
    show,
)

if TYPE_CHECKING:
    from ptq.evaluation.budget import BudgetSearch
    from ptq.evaluation.drop import Budget
    from ptq.evaluation.measurements import Evaluation
    from ptq.evaluation.ranking import NodeCost, Ranking
    from ptq.evaluation.report.report_data import NodeRow

MAX_RANKED_NODES = 12


def render_drops(result: Evaluation, titles: Mapping[str, str]) -> Iterator[RenderableType]:
    """The drop of each form against float; forms with equal drops share one paragraph."""
    names_by_drop: dict[str, list[str]] = {}
    for name, form in result.forms.items():
        if form.drop is not None:
            names_by_drop.setdefault(describe_drop(form.drop), []).append(titles[name])
    for text, names in names_by_drop.items():
        yield format_paragraph(to_one_line(f"{' and '.join(names)}: {text}"))


def render_budget(budget: Budget) -> RenderableType:
    """Whether a budget is kept."""
    style = {"held": "green", "exceeded": "red"}.get(budget.verdict, "yellow")
    return format_paragraph(budget.sentence, style)


def render_search(
    search: BudgetSearch, nodes: Sequence[NodeRow], budget: Budget | None
) -> Iterator[RenderableType]:
    """The nodes kept in float for a budget, and the cost of the search; ``budget`` is the verdict after it."""
    yield format_heading(SEARCH_TITLE)
    yield from map(format_paragraph, describe_search(search, nodes, budget))


def render_ranking(result: Ranking) -> None:
    """Print the SQNR gain of each node that could stay in float."""
    show(*format_warnings(result.warnings, result.suspects))
    show(
        format_heading(
            f"{result.model}, target {result.target}, on {plural(result.samples, 'sample')}"
        ),
        *format_applied(result.applied_preprocess, warned=True),
        *([] if result.labels is None else [format_paragraph(str(result.labels))]),
        *(format_paragraph(to_one_line(line)) for line in describe_task(result.task)),
    )
    show(
        format_paragraph(
            f"int8: SQNR {format_decibels(result.sqnr_db)} dB; {describe_drop(result.drop)}"
        )
    )
    node_column = "\n\n\nnode (quantized tensor)"
    table = format_table(
        "\n\n% of the\nerror", "\nSQNR gain\ndB,\nestimated", "\nSQNR gain\ndB,\nmeasured",
        "gain\ntogether\nwith rows\nabove", node_column, left=[node_column],
    )  # fmt: skip
    shown = _merge_equal(result.nodes)
    for cost in shown[:MAX_RANKED_NODES]:
        along = f", with {', '.join(cost.along)}" if cost.along else ""
        table.add_row(
            f"{100 * cost.share:.1f}",
            format_decibels(cost.won_db),
            "" if cost.measured_db is None else format_change(cost.measured_db, 1),
            "" if cost.together_db is None else format_change(cost.together_db, 1),
            to_one_line(f"{cost.op} {cost.node} ({cost.rounds}){along}"),
        )
    show(table)
    if len(shown) > MAX_RANKED_NODES:
        show(
            format_paragraph(f"{len(shown) - MAX_RANKED_NODES} more; --json and --report list all")
        )
    show(*map(format_paragraph, describe_ranking(result)))


def _merge_equal(nodes: Sequence[NodeCost]) -> list[NodeCost]:
    """The entries without those of a node that was measured before, with other nodes beside it, to the same gain."""
    kept: list[NodeCost] = []
    for cost in nodes:
        measured = (cost.node, cost.rounds, cost.measured_db)
        known = [(k.node, k.rounds, k.measured_db) for k in kept]
        if cost.measured_db is None or measured not in known:
            kept.append(cost)
    return kept
