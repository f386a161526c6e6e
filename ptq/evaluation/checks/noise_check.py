"""Models that draw random numbers: figures that compare noise with noise."""

from __future__ import annotations

from ptq.core.wording import plural
from ptq.evaluation.checks.mode_check import EVALUATION_MODE
from ptq.evaluation.diagnosis import Diagnosis
from ptq.evaluation.drop import Budget
from ptq.model.graph import Graph
from ptq.model.node import get_operator
from ptq.model.random_nodes import find_random_nodes


def check_noise(*graphs: Graph) -> tuple[Diagnosis, ...]:
    """Diagnose the first of the graphs that draws random numbers; nothing if none does."""
    for graph in graphs:
        found = find_random_nodes(graph)
        if not found:
            continue
        first, others = found[0], len(found) - 1
        more = f" and {plural(others, 'other node')}" if others else ""
        dropout = get_operator(first) == "Dropout"
        advice = EVALUATION_MODE if dropout else "export the model without it"
        return (
            Diagnosis(
                f"{'draw' if others else 'draws'} other random numbers on each run, so figures and "
                "decisions compare noise with noise",
                f"node {first.name} ({get_operator(first)}){more}",
                f"{advice}, or make the noise an input of the model",
                serious=True,
            ),
        )
    return ()


def leave_noise_undecided(budget: Budget | None, noise: tuple[Diagnosis, ...]) -> Budget | None:
    """The budget, undecided if noise was found: no number of samples decides it."""
    if budget is None or not noise:
        return budget
    return budget.leave_undecided("the model draws random numbers")
