"""The self-check stage: quantize, check the result, and keep failing nodes in float."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from ptq.core.decibels import to_error_db
from ptq.core.errors import ModelError, PlanError
from ptq.core.plan import Plan
from ptq.core.stages import CHECKING
from ptq.data import Sample
from ptq.evaluation.checks.overflow_check import refuse_overflow
from ptq.evaluation.runs.outputs_ahead import run_float_ahead
from ptq.evaluation.runs.session_cache import SessionCache
from ptq.optimization.job import Job
from ptq.optimization.mixed_precision.attribution.float_cost import build_float_time_model
from ptq.optimization.self_check.bisection import find_failing_ends, find_first_failing_node
from ptq.optimization.self_check.checks import (
    MIN_SQNR_DB,
    CheckReference,
    check,
    check_graph,
    check_with_floor,
    list_integer_nodes,
    run_reference,
    run_reference_on_more_samples,
)
from ptq.optimization.self_check.fallback_search import NEGLIGIBLE_COST, find_float_fallback
from ptq.optimization.self_check.output_distance import CheckFailure
from ptq.solver.quantizer import (
    CalibratedModel,
    Draft,
    QuantizedModel,
    complete_user_plan,
    quantize_with,
)
from ptq.solver.recipe import Recipe

MAX_FAILING_NODES = 12
"""Failing nodes that are kept in float one by one; then a head or tail of the network falls back."""
MAX_FAILING_BY_VALUES = 3
"""The same if rounding errors, to which all nodes can add, are the cause."""


def check_draft(job: Job, model: CalibratedModel, draft: Draft, sessions: SessionCache) -> Draft:
    """The draft, quantized, with nodes in float where the result fails; unchanged if checked or with a given plan.

    Args:
        job: What is asked.
        model: The calibrated model.
        draft: What is asked, resolved, and what is made of it already.
        sessions: Where the models are opened.

    Raises:
        ModelError: ONNX Runtime does not take the float model, or preparing it has changed what it computes.
        DataError: A sample is bad, or the float model fails on it.
    """
    if draft.is_checked or job.given.plan is not None:
        return draft
    made = draft.made
    if made is None:
        # workers wait while weights are rounded
        with run_float_ahead(sessions, model, job.samples.evaluation):
            made = quantize_with(model, draft.recipe, draft.plan)
    made = quantize_with_self_check(
        model, draft.recipe, _choose_samples(job), quantized=made, sessions=sessions
    )
    return Draft(made.recipe, made.plan, made, is_checked=True)


def quantize_and_check(
    job: Job, model: CalibratedModel, draft: Draft, sessions: SessionCache
) -> QuantizedModel:
    """Quantize by the draft's recipe with nodes in float where the result fails, or apply the given plan unchanged.

    Args:
        job: What is asked.
        model: The calibrated model.
        draft: What is asked, resolved, and what is made of it already.
        sessions: Where the models are opened.

    Raises:
        ModelError: ONNX Runtime does not take the float model, or preparing it has changed what it computes.
        PlanError: The given plan produces an invalid model.
        DataError: A sample is bad, or the float model fails on it.
    """
    if job.given.plan is not None:
        plan = complete_user_plan(model, job.given.plan)
        return apply_user_plan(model, draft.recipe, plan, _choose_samples(job), sessions=sessions)
    made = check_draft(job, model, draft, sessions).made
    assert made is not None
    return made


def _choose_samples(job: Job) -> Iterable[Sample]:
    return job.samples.calibration or job.samples.evaluation or ()


def quantize_with_self_check(
    model: CalibratedModel,
    recipe: Recipe,
    samples: Iterable[Sample],
    *,
    quantized: QuantizedModel | None = None,
    sessions: SessionCache,
) -> QuantizedModel:
    """Quantize, and keep the nodes in float that make the check of the result fail.

    Args:
        model: The calibrated model.
        recipe: How to quantize it.
        samples: The first few are run.
        quantized: The model quantized by this recipe, if it is made already.
        sessions: Opens the models.

    Raises:
        ModelError: ONNX Runtime does not take the float model, or preparing it has changed what it computes.
        DataError: A sample is bad, or the float model fails on it, or overflows so that nothing is quantized.
        StatsError: A tensor that needs a range was not observed.
        UsageError: The target, the method or a node to skip does not exist.
    """
    quantized = quantized or quantize_with(model, recipe)
    advance = sessions.run.start_stage(CHECKING, None)
    if check(quantized, run_reference(model, samples, sessions, advance=advance)) is not None:
        against = run_reference_on_more_samples(quantized, samples, sessions, advance)
        _check_preparation(model, against)
        quantized = replace(quantized, instability=against.instability)
        failure = check(quantized, against)
        if failure is not None:
            fallback = _fall_back_to_float(quantized, failure, against)
            quantized = _with_note(quantized, failure, fallback, against)
    advance.end()
    if not list_integer_nodes(quantized):
        refuse_overflow(
            model.prepared.graph, model.calibration.tensors, recipe.target_row, recipe.float_nodes,
            samples, run=sessions.run,
        )  # fmt: skip
    return quantized


def apply_user_plan(
    model: CalibratedModel,
    recipe: Recipe,
    plan: Plan,
    samples: Iterable[Sample],
    *,
    sessions: SessionCache,
) -> QuantizedModel:
    """Apply the user's plan unchanged, and record a failed check.

    Raises:
        PlanError: The resulting model is not valid, does not run, or has NaN outputs.
        ModelError: ONNX Runtime does not take the float model.
        DataError: A sample is bad, or the float model fails on it.
        UnsupportedError: An operator does not exist in this form.
    """
    made, advance = quantize_with(model, recipe, plan), sessions.run.start_stage(CHECKING, None)
    if check(made, run_reference(model, samples, sessions, advance=advance)) is None:
        advance.end()
        return made
    against = run_reference_on_more_samples(made, samples, sessions, advance)
    failure = check_graph(made.quantized_graph, against, -math.inf)
    if failure is not None and not failure.only_lengths:
        raise PlanError(f"the given plan produces an invalid model: {failure}. Create a new plan")
    failure = check(made, against)
    advance.end()
    made = replace(made, instability=against.instability)
    return made if failure is None else replace(made, check_failure=str(failure))


def _check_preparation(model: CalibratedModel, against: CheckReference) -> None:
    """Make sure that the prepared float model passes the check.

    Raises:
        ModelError: It does not.
    """
    failure = check_graph(model.prepared.graph, against, MIN_SQNR_DB)
    if failure is not None and not failure.only_lengths:
        raise ModelError(
            f"internal error: graph preparation changed the model output: {failure}. Please report it"
        )


def _fall_back_to_float(
    quantized: QuantizedModel, failure: CheckFailure, against: CheckReference
) -> QuantizedModel:
    """The model with failing nodes in float: a few nodes, a head or tail of the network, or all nodes.

    All nodes fall back if the remaining integer nodes would save next to nothing.
    """
    # nodes that the cost model keeps in float stay float
    quantized = replace(quantized, recipe=quantized.recipe.with_float_nodes(quantized.plan.floats))
    failing, attributed = 0, False
    while list_integer_nodes(quantized) and failing < (
        MAX_FAILING_BY_VALUES if failure.by_values else MAX_FAILING_NODES
    ):
        reason = _explain_failure(failure)
        if failure.error_shares is not None and not attributed:
            attributed = True
            found = find_float_fallback(quantized, against, failure, reason)
            if found is not None:
                return found
        name, failing = find_first_failing_node(quantized, against), failing + 1
        quantized = quantize_with(
            quantized.calibrated_model, quantized.recipe, floats={name: reason}
        )
        remaining = check(quantized, against)
        if remaining is None:
            return quantized
        failure = remaining
    time_model, nodes = build_float_time_model(quantized), list_integer_nodes(quantized)
    end = min(find_failing_ends(quantized, against), key=time_model)
    if time_model(nodes) - time_model(end) < NEGLIGIBLE_COST * time_model.all_float_time:
        end = nodes
    floats = dict.fromkeys(end, _explain_failure(failure))
    return quantize_with(quantized.calibrated_model, quantized.recipe, floats=floats)


def _explain_failure(failure: CheckFailure) -> str:
    return f"self-check: {failure}"


def _with_note(
    before: QuantizedModel,
    failure: CheckFailure,
    quantized: QuantizedModel,
    against: CheckReference,
) -> QuantizedModel:
    """The model after the fallback, with a sentence on the failure and the result."""
    nodes = len(list_integer_nodes(before))
    kept = nodes - len(list_integer_nodes(quantized))
    note = f"self-check: {failure}; {kept} of {nodes} nodes kept in float"
    after = check_with_floor(quantized, against, math.inf)
    if failure.error_shares is not None and after is not None and after.error_shares is not None:
        note += f"; now ≥ {-to_error_db(float(after.error_shares.max())):.1f} dB"
    changes = (*quantized.changes, note)
    return replace(
        quantized, recipe=replace(quantized.recipe, self_check_note=note), changes=changes
    )
