"""What is handed over, as a plan or a recipe asks and a check of the result allows?"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from ptq.core.errors import ModelError, PlanError
from ptq.core.plan import Plan
from ptq.core.targets import target
from ptq.data import Sample
from ptq.data.progress import Progress, begun
from ptq.evaluation.overflow_check import refuse_overflow
from ptq.evaluation.session_cache import Loaded
from ptq.optimization.mixed_precision.float_cost import passes
from ptq.optimization.self_check.bisection import culprit, ends
from ptq.optimization.self_check.checks import (
    FLOOR_DB,
    Truth,
    attempt,
    confirming,
    fault,
    fault_of,
    floor,
    integers,
    measured,
    truth_of,
)
from ptq.optimization.self_check.fallback_search import NEXT_TO_NOTHING, nearer
from ptq.optimization.self_check.output_distance import Fault, decibels
from ptq.solver.quantizer import Ground, Quantization
from ptq.solver.recipe import Recipe

MOST_CULPRITS = 12
MOST_BY_VALUES = 3
"""Of culprits where values are at fault, to which all nodes may add: then it is left to the ends of the network."""


def fit_to_hand_over(
    ground: Ground,
    recipe: Recipe,
    samples: Iterable[Sample],
    *,
    plan: Plan | None = None,
    loaded: Loaded,
    progress: Progress | None = None,
) -> Quantization:
    """Quantize, leaving float what a check of the result finds at fault.

    Args:
        ground: What to start from.
        recipe: What is asked.
        samples: The first few are run.
        plan: What `planned` gives, if that is known.
        loaded: Where the models are opened.
        progress: Told how far it is.

    Raises:
        ModelError: ONNX Runtime does not take the float model, or preparing it has changed what it computes.
        DataError: A sample is bad, or the float model fails on it, or overflows so that nothing is quantized.
        StatsError: A tensor that needs a range was not observed.
        UsageError: There is no such target, method, or node to skip.
    """
    made, advance = attempt(ground, recipe, plan), begun("checking", None, progress)
    if fault(made, truth_of(ground, samples, loaded, advance=advance)) is not None:
        truth = confirming(made, samples, loaded, advance)
        _refuse_unfit_ground(ground, truth)
        problem = fault(made, truth)
        if problem is not None:
            made = _noted(made, problem, _mended(made, problem, truth), truth)
    if not integers(made):
        refuse_overflow(
            ground.prepared.graph, ground.calibration.tensors, target(recipe.target), recipe.floats,
            samples, threads=loaded.threads,
        )  # fmt: skip
    return made


def as_planned(
    ground: Ground,
    recipe: Recipe,
    plan: Plan,
    samples: Iterable[Sample],
    *,
    loaded: Loaded,
    progress: Progress | None = None,
) -> Quantization:
    """Obey a plan of the user's, and note what the check finds; the plan is not second-guessed.

    Raises:
        PlanError: The result cannot be handed over: it is not valid, does not run, or brings NaN.
        ModelError: ONNX Runtime does not take the float model.
        DataError: A sample is bad, or the float model fails on it.
        UnsupportedError: An operator has no such form.
    """
    made, advance = attempt(ground, recipe, plan), begun("checking", None, progress)
    if fault(made, truth_of(ground, samples, loaded, advance=advance)) is None:
        return made
    truth = confirming(made, samples, loaded, advance)
    problem = fault_of(made.quantized, truth, -math.inf)
    if problem is not None and not problem.lengths:
        raise PlanError(f"the plan makes no model to hand over: {problem}; solve it anew")
    problem = fault(made, truth)
    return made if problem is None else replace(made, fault=str(problem))


def _refuse_unfit_ground(ground: Ground, truth: Truth) -> None:
    """Make sure that the fault is not there before anything is quantized.

    Raises:
        ModelError: It is.
    """
    problem = fault_of(ground.prepared.graph, truth, FLOOR_DB)
    if problem is not None and not problem.lengths:
        raise ModelError(f"preparing the model changes what it computes: {problem}; report it")


def _mended(made: Quantization, problem: Fault, truth: Truth) -> Quantization:
    """The quantization with what is at fault left float: a few nodes, an end of the network, or all of it.

    All of it also where the integers that the ends leave would save next to nothing.
    """
    made = replace(
        made, recipe=made.recipe.leaving(made.plan.floats)
    )  # what is not worth it stays so
    culprits, weighed = 0, False
    while integers(made) and culprits < (MOST_BY_VALUES if problem.by_values else MOST_CULPRITS):
        if problem.shares is not None and not weighed:
            weighed = True
            enough = nearer(made, truth, problem, _found(problem))
            if enough is not None:
                return enough
        name, culprits = culprit(made, truth), culprits + 1
        made = attempt(made.ground, made.recipe, floats={name: _found(problem)})
        still = fault(made, truth)
        if still is None:
            return made
        problem = still
    slower, everything = passes(made), integers(made)
    left = min(ends(made, truth), key=slower)
    if slower(everything) - slower(left) < NEXT_TO_NOTHING * slower.real:
        left = everything
    return attempt(made.ground, made.recipe, floats=dict.fromkeys(left, _found(problem)))


def _found(problem: Fault) -> str:
    return f"the self-check found: {problem}"


def _noted(before: Quantization, problem: Fault, made: Quantization, truth: Truth) -> Quantization:
    """The quantization that a check has changed, with a sentence that says so."""
    count, all_of_them = len(integers(before)) - len(integers(made)), len(integers(before))
    note = f"the self-check left {count} of {all_of_them} nodes in integers float: {problem}"
    after = measured(made, truth, math.inf)
    if problem.shares is not None and after is not None and after.shares is not None:
        what = "all that they hand on has" if after.edges else "all outputs have"
        note += f"; now {what} {decibels(float(after.shares.max())):.1f} dB or more"
        note += f" ({floor(made):.0f} are asked)"
    changes = (*made.changes, note)
    return replace(made, recipe=replace(made.recipe, left_note=note), changes=changes)
