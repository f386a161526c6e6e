"""The first stages of a quantization: rewrite, calibrate, choose ranges, collect covariances.

`ptq.quantize`, `ptq.frontier` and `ptq.sensitivity` share them. Each stage takes what the stages before have made and
returns more.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

from ptq.calibration.calibration import CrossValidationFold, load_or_collect
from ptq.calibration.input_covariance import collect_input_covariance
from ptq.core.memory import release_memory
from ptq.core.plan import Plan
from ptq.core.wording import plural
from ptq.optimization.compensation import list_inputs_to_keep
from ptq.optimization.decision_log import log_decisions
from ptq.optimization.earlier_run import list_left_out
from ptq.optimization.equalization.candidate_statistics import add_wider_statistics
from ptq.optimization.equalization.equalization import equalize_channels
from ptq.optimization.job import Job
from ptq.optimization.outlier_splitting import split_outlier_channels
from ptq.optimization.range_search import choose_ranges
from ptq.rewrite.prepare.prepare import PreparedModel
from ptq.solver.quantizer import CalibratedModel, Draft, complete_user_plan, solve_plan
from ptq.solver.recipe import Recipe


def prepare_draft(
    job: Job,
    checkpoint: str | os.PathLike[str] | None = None,
    *,
    alone: Callable[[CalibratedModel], AbstractContextManager[None]] | None = None,
) -> tuple[Job, CalibratedModel, Draft]:
    """All stages up to the solver: the job as rewritten, the calibrated model, and the recipe with its plan.

    Args:
        job: What is asked.
        checkpoint: A file for the state of the calibration; None for none.
        alone: Opens, for the calibrated model, what is entered while this process works alone; its workers may do
            something else.

    Raises:
        DataError: A sample is missing, unreadable or does not fit, or the model fails on it.
        StatsError: The statistics or the checkpoint belong to another graph.
        PlanError: The given plan does not fit the model.
    """
    job = optimize_before_calibration(job)
    calibrated, folds = calibrate_model(job, checkpoint)
    ahead = None if alone is None else alone(calibrated)
    recipe = choose_recipe(job, calibrated, folds, alone=ahead)
    calibrated, plan = collect_for_rounding(job, calibrated, recipe)
    return job, calibrated, Draft(recipe, plan)


def optimize_before_calibration(job: Job) -> Job:
    """Equalize channels and split outlier channels, each where held-out samples improve.

    Raises:
        DataError: A sample is unreadable, does not fit, or the model fails on it.
        PlanError: The plan's channel factors do not fit the model.
    """
    plan, known = job.given.plan, job.prepared.describe_changes()
    if job.options.equalize or (plan is not None and plan.channel_factors):
        prepared = equalize_channels(
            job.name,
            job.prepared,
            job.samples.calibration,
            job.recipe,
            job.given,
            job.effort,
            job.run,
        )
        recipe = job.recipe.with_float_nodes(prepared.float_nodes)
        plain = job.prepared.graph if prepared.channel_factors else None
        job = replace(job, prepared=prepared, recipe=recipe, plain=plain)
        release_memory()
    if job.options.split_outliers:
        prepared, recipe = split_outlier_channels(
            job.prepared, job.samples.calibration, job.recipe, job.given, job.effort, job.run
        )
        plain = job.plain if prepared.graph is job.prepared.graph else None
        job = replace(job, prepared=prepared, recipe=recipe, plain=plain)
    if plan is None and job.samples.calibration is None:
        job = replace(job, prepared=_note_missing_samples(job))
    log_decisions(job.prepared.describe_changes(), known)
    return job


def _note_missing_samples(job: Job) -> PreparedModel:
    left_out = list_left_out(rounding=job.options.rounding, method=job.options.method)
    if not left_out:
        return job.prepared
    note = (
        f"without calibration samples: no {', no '.join(left_out)}; give data beside the statistics"
    )
    return job.prepared.with_note(note)


def calibrate_model(
    job: Job, checkpoint: str | os.PathLike[str] | None = None
) -> tuple[CalibratedModel, list[CrossValidationFold]]:
    """Collect statistics, or take those given; and the folds that range methods are compared on.

    Raises:
        DataError: A sample is missing, unreadable or does not fit.
        StatsError: The statistics or the checkpoint belong to another graph.
    """
    stats, anew, prepared = job.given.stats, job.given.is_calibrated_anew, job.prepared
    calibration, folds = load_or_collect(
        prepared.graph,
        job.samples.calibration,
        None if anew else stats,
        checkpoint=checkpoint,
        run=job.run,
    )
    if anew and stats is not None:
        kept = plural(calibration.samples, "sample")
        if stats.graph == calibration.graph:
            note = f"decided on {kept} that the statistics keep"
            calibration = stats if "statistics" in job.given.replaced else calibration
        else:
            note = f"decided on {kept} that the statistics keep, ranges too, because the model was rewritten"
            wider = (
                None
                if job.plain is None
                else job.given.find_wider_statistics(job.plain, calibration.samples)
            )
            if job.plain is not None and wider is not None:
                calibration = add_wider_statistics(calibration, job.plain, prepared, wider)
                note = f"decided on {kept} that the statistics keep, ranges of scaled channels too"
        prepared = prepared.with_note(note)
    release_memory()
    return CalibratedModel(job.name, job.source, prepared, calibration), folds


def choose_recipe(
    job: Job,
    model: CalibratedModel,
    folds: list[CrossValidationFold],
    alone: AbstractContextManager[None] | None = None,
) -> Recipe:
    """The recipe with a range method for each tensor; a given plan has its scales already.

    Args:
        job: What is asked.
        model: The calibrated model.
        folds: The folds that range methods are compared on.
        alone: Entered while this process works alone; its workers may do something else.

    Raises:
        DataError: A sample is unreadable, does not fit, or the model fails on it.
    """
    if job.given.plan is not None:
        return job.recipe
    recipe = choose_ranges(model, job.recipe, folds, effort=job.effort, run=job.run, alone=alone)
    release_memory()
    log_decisions([recipe.range_note])
    return recipe


def collect_for_rounding(
    job: Job, model: CalibratedModel, recipe: Recipe
) -> tuple[CalibratedModel, Plan | None]:
    """The model with the covariances that second-order rounding needs, and the plan that they hold for.

    The plan is None where weights are rounded to the nearest, or without samples.

    Raises:
        DataError: The model fails on a sample; the text names it.
        PlanError: The given plan does not fit the graph.
    """
    if recipe.rounding != "second-order" or job.samples.calibration is None:
        return model, None
    given = job.given.plan
    plan = solve_plan(model, recipe) if given is None else complete_user_plan(model, given)
    keep = list_inputs_to_keep(model.prepared.graph, plan) if job.effort.compensate else ()
    model = collect_input_covariance(
        model,
        plan,
        job.samples.calibration,
        job.run,
        keep=keep,
        validated_inputs=job.effort.validated_inputs,
    )
    return model, plan
