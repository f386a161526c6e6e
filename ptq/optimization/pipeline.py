"""The first stages of a quantization: open, split samples, rewrite, calibrate, choose ranges, collect covariances.

`ptq.quantize` and `ptq.sensitivity` share them. Each stage takes what the stages before have made and returns more.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from ptq.calibration.calibration import Fold, load_or_collect
from ptq.calibration.input_covariance import collect_input_covariance
from ptq.core.errors import UnsupportedError, UsageError
from ptq.core.memory import release_memory
from ptq.core.plan import Plan
from ptq.core.run_options import RunOptions
from ptq.core.wording import plural
from ptq.data import DataSource
from ptq.data.splits import ON_CALIBRATION, SampleOptions, SampleSplit, split_samples
from ptq.model.graph import Graph
from ptq.model.open import Model, display_name
from ptq.optimization.compensation import inputs_to_keep
from ptq.optimization.decision_log import log_decisions
from ptq.optimization.effort import EFFORTS, Effort
from ptq.optimization.equalization.candidate_statistics import add_wider_statistics
from ptq.optimization.equalization.equalization import equalize_channels
from ptq.optimization.given import NOTHING_GIVEN, Given, list_left_out
from ptq.optimization.options import QuantizeOptions
from ptq.optimization.outlier_splitting import split_outlier_channels
from ptq.optimization.range_search import choose_ranges
from ptq.rewrite.border.batch import require_free_batch
from ptq.rewrite.prepare.prepare import PreparedModel, open_and_prepare
from ptq.rewrite.tflite.rehearsal import rehearse_writing
from ptq.rewrite.tflite.write import TfliteOptions
from ptq.solver.quantizer import CalibratedModel, complete_user_plan, solve_plan
from ptq.solver.recipe import Recipe
from ptq.solver.skipped_nodes import SKIPPED_REASON, resolve_skipped_nodes


@dataclass(frozen=True, eq=False)
class Job:
    """One quantization before calibration.

    Attributes:
        name: What to call the model.
        source: The float model as given.
        prepared: The model, prepared and rewritten so far.
        samples: Which samples serve what.
        options: What is asked.
        recipe: The same, resolved so far.
        given: Statistics or a plan of an earlier run.
        run: How the job runs.
        plain: The model before its channels were scaled, if nothing else was rewritten; else None.
    """

    name: str
    source: Graph
    prepared: PreparedModel
    samples: SampleSplit
    options: QuantizeOptions
    recipe: Recipe
    given: Given
    run: RunOptions
    plain: Graph | None = None

    @property
    def effort(self) -> Effort:
        """How many samples and runs each decision may take."""
        return EFFORTS[self.options.effort]


def open_job(
    model: Model,
    data: DataSource | None,
    eval_data: DataSource | None,
    reading: SampleOptions,
    options: QuantizeOptions,
    run: RunOptions,
    *,
    given: Given = NOTHING_GIVEN,
    search: bool,
) -> Job:
    """Open and prepare the model, and split the samples.

    Args:
        model: A float model.
        data: Calibration samples.
        eval_data: Samples to measure accuracy on; None to hold some of ``data`` out.
        reading: How samples are read.
        options: What is asked.
        run: How the job runs.
        given: Statistics or a plan of an earlier run.
        search: Whether samples are needed to decide which nodes stay float.

    Raises:
        ModelError: The model cannot be read or prepared.
        DataError: Samples are missing or do not fit.
        UsageError: An option makes no sense.
    """
    source, prepared = open_and_prepare(
        model,
        opset=options.opset,
        per_tensor=options.per_tensor,
        known=given.names,
        digest=given.digest,
    )
    labels = options.metric is None
    reading = replace(reading, recorded=given.recorded)
    samples = split_samples(prepared.graph, data, eval_data, reading, search=search, labels=labels)
    if options.static_batch is not None:
        require_free_batch(source, options.static_batch, options.to_tflite_options(samples).shapes)
    if not search:
        samples = _limit_reported(samples, EFFORTS[options.effort].reported_samples)
    kept = None if data is not None else given.open_kept_samples()
    if kept is not None:
        given, samples = replace(given, is_calibrated_anew=True), replace(samples, calibration=kept)
    ineffective = [] if given.plan is None else options.list_ineffective()
    if data is None and reading.samples is not None:
        ineffective.append(f"samples {reading.samples} has no effect without data")
    if given.plan is not None:
        options = options.without_ineffective()
    recipe = options.to_recipe(given.plan)
    skipped = resolve_skipped_nodes(prepared.graph, recipe.float_nodes, source)
    recipe = replace(recipe, float_nodes=dict.fromkeys(skipped, SKIPPED_REASON))
    if given.plan is not None and recipe.float_nodes:
        raise UsageError("a plan already lists the float nodes; do not combine plan with skip")
    if given.plan is None:
        recipe = recipe.with_float_nodes(prepared.float_nodes)
    for note in ineffective:
        prepared = prepared.with_note(note)
    if options.form == "tflite":
        tflite = options.to_tflite_options(samples)
        recipe = _check_for_litert(prepared.graph, tflite, recipe, given.plan)
    log_decisions(prepared.describe_changes())
    return Job(display_name(model), source, prepared, samples, options, recipe, given, run)


def _limit_reported(samples: SampleSplit, most: int) -> SampleSplit:
    """Measure accuracy on at most so many samples, if all of them set ranges too; 0 for no limit."""
    if not most or samples.evaluation is None or samples.description != ON_CALIBRATION:
        return samples
    return replace(samples, evaluation=samples.evaluation.spread(most))


def _check_for_litert(
    graph: Graph, options: TfliteOptions, recipe: Recipe, plan: Plan | None
) -> Recipe:
    """The recipe with the nodes that LiteRT computes only in float.

    Raises:
        UnsupportedError: LiteRT has no form of a node at all, or of one that the plan quantizes.
    """
    floats = rehearse_writing(graph, options)
    if plan is None:
        return recipe.with_float_nodes(floats)
    for name in floats.keys() - plan.floats.keys():
        raise UnsupportedError(
            f"the plan quantizes node {name}, but {floats[name]}; solve a plan for `form` tflite"
        )
    return recipe


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
) -> tuple[CalibratedModel, list[Fold]]:
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
    folds: list[Fold],
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
    keep = inputs_to_keep(model.prepared.graph, plan) if job.effort.compensate else ()
    model = collect_input_covariance(
        model,
        plan,
        job.samples.calibration,
        job.run,
        keep=keep,
        validated_inputs=job.effort.validated_inputs,
    )
    return model, plan
