"""How does what quantization cost read, with how sure it is?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType

from .one_line import one_line
from .screen import counted, format_decibels, format_heading, format_paragraph, format_table, show

if TYPE_CHECKING:
    from ptq.evaluation.drop import Budget, BudgetSearch, Drop
    from ptq.evaluation.evaluate import Evaluation
    from ptq.evaluation.ranking import Ranking
    from ptq.evaluation.report import NodeRow

SIGNIFICANCE_LEVEL = 0.05
MAX_RANKED_NODES = 12


def render_drops(result: Evaluation, titles: Mapping[str, str]) -> Iterator[RenderableType]:
    """What each form loses, those that lose the same in one sentence."""
    said: dict[str, list[str]] = {}
    for name, form in result.forms.items():
        if form.drop is not None:
            said.setdefault(describe_drop(form.drop), []).append(titles[name])
    for text, names in said.items():
        yield format_paragraph(one_line(f"{' and '.join(names)}: {text}"))


def describe_drop(lost: Drop) -> str:
    """One drop in words."""
    if lost.metric == "energy of the error":
        ends = f"95 % interval {lost.lo:.3g} to {lost.hi:.3g}"
        return f"the error has {lost.points:.3g} % of the output's energy, {ends}"
    change = "loses" if lost.points >= 0 else "gains"
    ends = f"95 % interval {lost.lo:.2f} to {lost.hi:.2f}"
    text = f"{change} {abs(lost.points):.2f} points of {lost.metric}, {ends}"
    if lost.p is None or lost.lost is None or lost.gained is None:
        return text
    verdict = "a difference" if lost.p < SIGNIFICANCE_LEVEL else "chance may do as much"
    return f"{text}; {lost.lost} lost, {lost.gained} gained, p = {lost.p:.2g}: {verdict}"


def render_budget(held: Budget) -> RenderableType:
    """Whether a budget holds."""
    style = {"held": "green", "exceeded": "red"}.get(held.verdict, "yellow")
    unit = "%" if held.drop.metric == "energy of the error" else "points"
    return format_paragraph(
        f"budget of {held.points:g} {unit} of {held.drop.metric}: {held}", style
    )


def render_search(found: BudgetSearch, nodes: Sequence[NodeRow]) -> Iterator[RenderableType]:
    """What was left float for a budget, and what finding it took."""
    yield format_heading(f"Budget of {found.points:g} points of {found.drop.metric}")
    place = f"on {counted(found.samples, 'sample')}"
    place += " held out for it" if found.apart else ", the ones that accuracy is measured on"
    if not found.floats and found.reached:
        yield format_paragraph(f"no node has to stay float: {found.drop.points:.3g} lost {place}")
        return
    end = "" if found.reached else "; more nodes float would leave too little of the model in int8"
    lost = f"{found.without.points:.3g} lost without, {found.drop.points:.3g} with them"
    ops = {row.name: row.op for row in nodes}
    yield format_paragraph(f"{counted(len(found.floats), 'node')} float, {lost}, {place}{end}")
    for name, why in found.floats.items():
        yield format_paragraph(f"{ops.get(name, 'node')} {name}: {why.partition(': ')[2]}")
    runs = f"{found.measurements} models measured, {found.estimates} float runs on a few samples"
    yield format_paragraph(f"found by {runs}; one by one, {found.sources} places that round")


def render_ranking(result: Ranking) -> None:
    """Print what leaving each node float would win."""
    show(
        format_heading(
            f"{result.model}, target {result.target}, on {counted(result.samples, 'sample')}"
        )
    )
    show(
        format_paragraph(
            f"int8: {format_decibels(result.sqnr_db)} dB; {describe_drop(result.drop)}"
        )
    )
    last = "node (what it rounds)"
    made = format_table("% of the\nerror", "wins dB,\nestimated", "wins dB,\nmeasured", "with those\nabove", f"\n{last}",
                 left=[f"\n{last}"])  # fmt: skip
    for cost in result.nodes[:MAX_RANKED_NODES]:
        along = f", with {', '.join(cost.along)}" if cost.along else ""
        made.add_row(
            f"{100 * cost.share:.1f}",
            format_decibels(cost.won_db),
            "" if cost.measured_db is None else f"{cost.measured_db:+.1f}",
            "" if cost.together_db is None else f"{cost.together_db:+.1f}",
            one_line(f"{cost.op} {cost.node} ({cost.rounds}){along}"),
        )
    show(made)
    if len(result.nodes) > MAX_RANKED_NODES:
        show(
            format_paragraph(
                f"and {len(result.nodes) - MAX_RANKED_NODES} more; --json and --report have all"
            )
        )
    runs = f"{counted(result.runs, 'run')} of the float model on {counted(result.estimated_on, 'sample')}"
    show(
        format_paragraph(
            f"Estimated from {runs}, for {result.sources} places that round; measured: "
            f"{counted(result.measurements, 'quantized model')}."
        )
    )
