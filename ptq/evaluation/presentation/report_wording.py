"""Sentences of a report that the terminal and the page share: accuracy, nodes and the budget search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ptq.core.wording import plural
from ptq.evaluation.budget import BudgetSearch
from ptq.evaluation.drop import Budget, describe_metric_change
from ptq.evaluation.report.report_data import NodeRow

NOT_LABELLED = (
    "no sample is labelled: give labels (--boxes for boxes), or the float model with --against"
)
NOT_MEASURED = "Accuracy was not measured: no samples; give --data or --eval"
TOO_OPTIMISTIC = (
    "too optimistic: measured on calibration samples. Give other samples with --eval, or at least 50 with --data "
    "alone."
)
NOTHING_QUANTIZED = "no node was quantized; the output model equals the float model"
SEARCH_TITLE = "Search for float nodes that keep the budget"

NODE_RESULTS: Mapping[str, str] = {
    "int8": "int8",
    "folded": "folded into the node before",
    "clamp": "integer clamps",
    "float": "float",
}
"""What each result of a node means."""


def count_nodes(rows: Sequence[NodeRow]) -> str:
    """The number of nodes by result."""
    titles = dict(NODE_RESULTS)
    counts = Counter(row.fate for row in rows)
    foldable = sum(row.fate == "int8" and row.why.startswith("may be folded") for row in rows)
    if foldable:
        titles["int8"] += f" ({foldable} of them may be folded into the node before)"
    results = [
        f"{counts[fate]} {title}"
        for fate, title in titles.items()
        if counts[fate] or fate == "float"
    ]
    return f"{plural(len(rows), 'node')}: {', '.join(results)}"


def describe_search(
    search: BudgetSearch, nodes: Sequence[NodeRow], budget: Budget | None
) -> Iterator[str]:
    """The nodes kept in float for a budget, and the cost of the search; ``budget`` is the verdict after it."""
    samples = f"{plural(search.samples, 'sample')} held out for the search"
    if not search.apart:
        samples = f"the {plural(search.samples, 'evaluation sample')}"
    change = describe_metric_change(search.without)[0]
    if search.floats:
        change += f" → {describe_metric_change(search.drop)[0]}"
    if not search.floats and search.reached:
        held = budget is None or budget.verdict == "held"
        needed = (
            "needed" if held else "kept, because the change on the search samples is in the budget"
        )
        yield f"no float nodes {needed}: {change} on {samples}"
        return
    kind = "node" if search.wide else "float node"
    where = " with activations of 16 bits" if search.wide else ""
    yield f"{plural(len(search.floats), kind)}{where}: {change} on {samples}"
    if not search.reached:
        yield "more float nodes would leave too little of the model in int8"
    ops = {row.name: row.op for row in nodes}
    for name, why in search.floats.items():
        yield f"{ops.get(name, 'node')} {name}: {why.partition(': ')[2]}"
    yield (
        f"search: {plural(search.measurements, 'quantized model')} measured, "
        f"{plural(search.estimates, 'float run')} for {plural(search.sources, 'quantizer')}"
    )
