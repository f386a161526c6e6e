"""What is handed over, as a plan or a recipe asks and a check of the result allows?"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from ptq.core.errors import ModelError, PlanError
from ptq.core.plan import Plan
from ptq.core.targets import get_target
from ptq.data import Sample
from ptq.evaluation.overflow_check import refuse_overflow
from ptq.evaluation.session_cache import SessionCache
from ptq.optimization.mixed_precision.float_cost import float_time_model
from ptq.optimization.pipeline import Job
from ptq.optimization.self_check.bisection import failing_ends, first_failing_node
from ptq.optimization.self_check.checks import (
    MIN_SQNR_DB,
    ReferenceOutputs,
    check,
    check_graph,
    check_with_floor,
    integer_nodes,
    quantize_with,
    required_sqnr_db,
    run_reference,
    run_reference_on_more_samples,
)
from ptq.optimization.self_check.fallback_search import NEGLIGIBLE_COST, find_float_fallback
from ptq.optimization.self_check.output_distance import CheckFailure, sqnr_db
from ptq.solver.quantizer import CalibratedModel, QuantizedModel, complete_user_plan
from ptq.solver.recipe import Recipe

MAX_FAILING_NODES = 12
MAX_FAILING_BY_VALUES = 3
"""Of culprits where values are at fault, to which all nodes may add: then it is left to the ends of the network."""


def quantize_and_check(
    job: Job, model: CalibratedModel, recipe: Recipe, solved: Plan | None, sessions: SessionCache
) -> QuantizedModel:
    """Quantize by the recipe with nodes kept in float where the result fails, or apply the given plan unchanged.

    Args:
        job: What is asked.
        model: The calibrated model.
        recipe: What is asked, resolved.
        solved: The plan of this recipe, if it is solved already.
        sessions: Where the models are opened.

    Raises:
        ModelError: ONNX Runtime does not take the float model, or preparing it has changed what it computes.
        PlanError: The given plan produces an invalid model.
        DataError: A sample is bad, or the float model fails on it.
    """
    samples = job.samples.calibration or job.samples.evaluation or ()
    if job.given.plan is None:
        return quantize_with_self_check(model, recipe, samples, plan=solved, loaded=sessions)
    plan = complete_user_plan(model, job.given.plan)
    return apply_user_plan(model, recipe, plan, samples, loaded=sessions)


def quantize_with_self_check(
    ground: CalibratedModel,
    recipe: Recipe,
    samples: Iterable[Sample],
    *,
    plan: Plan | None = None,
    loaded: SessionCache,
) -> QuantizedModel:
    """Quantize, leaving float what a check of the result finds at fault.

    Args:
        ground: What to start from.
        recipe: What is asked.
        samples: The first few are run.
        plan: What `planned` gives, if that is known.
        loaded: Where the models are opened.

    Raises:
        ModelError: ONNX Runtime does not take the float model, or preparing it has changed what it computes.
        DataError: A sample is bad, or the float model fails on it, or overflows so that nothing is quantized.
        StatsError: A tensor that needs a range was not observed.
        UsageError: There is no such target, method, or node to skip.
    """
    made, advance = quantize_with(ground, recipe, plan), loaded.run.start_stage("checking", None)
    if check(made, run_reference(ground, samples, loaded, advance=advance)) is not None:
        truth = run_reference_on_more_samples(made, samples, loaded, advance)
        _check_preparation(ground, truth)
        problem = check(made, truth)
        if problem is not None:
            made = _with_note(made, problem, _fall_back_to_float(made, problem, truth), truth)
    if not integer_nodes(made):
        refuse_overflow(
            ground.prepared.graph, ground.calibration.tensors, get_target(recipe.target), recipe.float_nodes,
            samples, run=loaded.run,
        )  # fmt: skip
    return made


def apply_user_plan(
    ground: CalibratedModel,
    recipe: Recipe,
    plan: Plan,
    samples: Iterable[Sample],
    *,
    loaded: SessionCache,
) -> QuantizedModel:
    """Obey a plan of the user's, and note what the check finds; the plan is not second-guessed.

    Raises:
        PlanError: The result cannot be handed over: it is not valid, does not run, or brings NaN.
        ModelError: ONNX Runtime does not take the float model.
        DataError: A sample is bad, or the float model fails on it.
        UnsupportedError: An operator has no such form.
    """
    made, advance = quantize_with(ground, recipe, plan), loaded.run.start_stage("checking", None)
    if check(made, run_reference(ground, samples, loaded, advance=advance)) is None:
        return made
    truth = run_reference_on_more_samples(made, samples, loaded, advance)
    problem = check_graph(made.quantized_graph, truth, -math.inf)
    if problem is not None and not problem.only_lengths:
        raise PlanError(f"the plan makes no model to hand over: {problem}; solve it anew")
    problem = check(made, truth)
    return made if problem is None else replace(made, check_failure=str(problem))


def _check_preparation(ground: CalibratedModel, truth: ReferenceOutputs) -> None:
    """Make sure that the fault is not there before anything is quantized.

    Raises:
        ModelError: It is.
    """
    problem = check_graph(ground.prepared.graph, truth, MIN_SQNR_DB)
    if problem is not None and not problem.only_lengths:
        raise ModelError(f"preparing the model changes what it computes: {problem}; report it")


def _fall_back_to_float(
    made: QuantizedModel, problem: CheckFailure, truth: ReferenceOutputs
) -> QuantizedModel:
    """The quantization with what is at fault left float: a few nodes, an end of the network, or all of it.

    All of it also where the integers that the ends leave would save next to nothing.
    """
    made = replace(
        made, recipe=made.recipe.with_float_nodes(made.plan.floats)
    )  # what is not worth it stays so
    culprits, weighed = 0, False
    while integer_nodes(made) and culprits < (
        MAX_FAILING_BY_VALUES if problem.by_values else MAX_FAILING_NODES
    ):
        if problem.error_shares is not None and not weighed:
            weighed = True
            enough = find_float_fallback(made, truth, problem, _failure_reason(problem))
            if enough is not None:
                return enough
        name, culprits = first_failing_node(made, truth), culprits + 1
        made = quantize_with(
            made.calibrated_model, made.recipe, floats={name: _failure_reason(problem)}
        )
        still = check(made, truth)
        if still is None:
            return made
        problem = still
    slower, everything = float_time_model(made), integer_nodes(made)
    left = min(failing_ends(made, truth), key=slower)
    if slower(everything) - slower(left) < NEGLIGIBLE_COST * slower.all_float_time:
        left = everything
    return quantize_with(
        made.calibrated_model, made.recipe, floats=dict.fromkeys(left, _failure_reason(problem))
    )


def _failure_reason(problem: CheckFailure) -> str:
    return f"the self-check found: {problem}"


def _with_note(
    before: QuantizedModel, problem: CheckFailure, made: QuantizedModel, truth: ReferenceOutputs
) -> QuantizedModel:
    """The quantization that a check has changed, with a sentence that says so."""
    count, all_of_them = (
        len(integer_nodes(before)) - len(integer_nodes(made)),
        len(integer_nodes(before)),
    )
    note = f"the self-check left {count} of {all_of_them} nodes in integers float: {problem}"
    after = check_with_floor(made, truth, math.inf)
    if problem.error_shares is not None and after is not None and after.error_shares is not None:
        what = "all that they hand on has" if after.boundary_tensors else "all outputs have"
        note += f"; now {what} {sqnr_db(float(after.error_shares.max())):.1f} dB or more"
        note += f" ({required_sqnr_db(made):.0f} are asked)"
    changes = (*made.changes, note)
    return replace(made, recipe=replace(made.recipe, self_check_note=note), changes=changes)
