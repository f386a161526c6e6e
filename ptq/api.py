"""The verbs of ptq in Python: calibrate, inspect, quantize, evaluate; the command line calls these.

result = ptq.quantize("model.onnx", "images/")
result.save("model.int8.onnx")
print(result.report.evaluation.forms["int8"].accuracy)
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace
from typing import Literal

from ptq.calibration.calibration import collect_statistics, open_statistics
from ptq.calibration.workers import collect_in_processes
from ptq.core.errors import UsageError
from ptq.core.plan import Plan
from ptq.core.run_options import DEFAULT_RUN, Progress, RunOptions
from ptq.core.targets import get_target
from ptq.data import DataSource, Preprocess
from ptq.data.splits import SampleOptions, takes_any_batch
from ptq.evaluation.assess import build_report
from ptq.evaluation.evaluate import (
    Engine,
    Evaluation,
    evaluate_engines,
    integer_engine,
    reference_engine,
    session_engine,
)
from ptq.evaluation.inspection import Inspection, build_inspection
from ptq.evaluation.result import Result
from ptq.evaluation.session_cache import SessionCache
from ptq.evaluation.user_metric import Metric
from ptq.model.failure import explain_failure
from ptq.model.node import name_of
from ptq.model.open import Model, display_name, open_model, require_quantized, source_path
from ptq.model.session import Session
from ptq.observers.calibration_file import Calibration
from ptq.optimization.compensation import compensate_rounding
from ptq.optimization.given import Given
from ptq.optimization.mixed_precision.budget_search import search_within_budget
from ptq.optimization.options import QuantizeOptions
from ptq.optimization.pipeline import (
    calibrate_model,
    choose_recipe,
    collect_for_rounding,
    open_job,
    optimize_before_calibration,
)
from ptq.optimization.self_check.self_check import quantize_and_check
from ptq.rewrite.prepare.prepare import open_and_prepare
from ptq.solver.recipe import DEFAULT_METHOD, QuantizedForm, RoundingMethod, WeightFormatOption
from ptq.verification.ort_like_executor import executor_matching_ort


def calibrate(
    model: Model,
    data: DataSource,
    *,
    preprocess: Preprocess | None = None,
    samples: int | None = None,
    shard: tuple[int, int] | None = None,
    skip_bad_samples: bool = False,
    batch: int = DEFAULT_RUN.calibration_batch,
    threads: int = 0,
    workers: int = 1,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Calibration:
    """Observe the tensors of a model on all samples of the data.

    Args:
        model: A float model.
        data: Samples (see ``ptq.data.open_samples``).
        preprocess: How images become arrays.
        samples: Use that many, evenly spread.
        shard: (k, n): use every n-th sample from the k-th on; shards merge to the whole.
        skip_bad_samples: Leave unreadable samples out instead of stopping.
        batch: Samples that are counted together; the statistics do not depend on it.
        threads: Threads for one operator; 0 is one a core.
        workers: Processes, a shard of the samples each; model and data are paths then.
        checkpoint: A file that the statistics are saved to every few seconds; where it exists, the
            samples that it counts are read and compared, not run.
        progress: Told how far it is.

    Raises:
        ModelError: The model cannot be read or run.
        DataError: A sample is missing, unreadable or does not fit.
        StatsError: The checkpoint belongs to another model, or to other samples.
        UsageError: Options that do not go together.
    """
    reading = SampleOptions(preprocess, samples, skip_bad_samples, shard)
    run = RunOptions(threads=threads, calibration_batch=batch, progress=progress)
    if workers > 1:
        paths = (str, os.PathLike)
        if checkpoint is not None or not (isinstance(model, paths) and isinstance(data, paths)):
            raise UsageError(
                "several workers need the model and the data as paths, and keep no checkpoint; "
                "use one worker"
            )
        return collect_in_processes(str(model), str(data), reading, workers, run=run)
    graph = open_and_prepare(model)[1].graph
    return collect_statistics(graph, reading.open(data, graph), checkpoint=checkpoint, run=run)


def inspect(model: Model, *, target: str = "ort", skip: Collection[str] = ()) -> Inspection:
    """Say what quantize would do to each node, without data.

    Raises:
        ModelError: The model cannot be read.
        UsageError: There is no such target.
    """
    graph, prepared = open_and_prepare(model)
    with explain_failure(graph):
        return build_inspection(display_name(model), graph, prepared, get_target(target), skip)


def quantize(
    model: Model,
    data: DataSource | None = None,
    *,
    eval_data: DataSource | None = None,
    target: str = "ort",
    method: str = DEFAULT_METHOD,
    form: QuantizedForm = "qdq",
    weights: WeightFormatOption = "auto",
    per_tensor: bool = False,
    skip: Collection[str] = (),
    correct_bias: bool = True,
    rounding: RoundingMethod = "second-order",
    equalize: bool = True,
    split_outliers: bool = True,
    stats: Calibration | str | os.PathLike[str] | None = None,
    plan: Plan | None = None,
    preprocess: Preprocess | None = None,
    samples: int | None = None,
    skip_bad_samples: bool = False,
    arithmetic: str | None = None,
    batch: int = DEFAULT_RUN.evaluation_batch,
    threads: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    max_drop: float | None = None,
    metric: Metric | None = None,
    progress: Progress | None = None,
) -> Result:
    """Quantize a model and measure what it cost.

    Args:
        model: A float model.
        data: Calibration samples; not needed with ``stats`` or ``plan``.
        eval_data: Samples to measure accuracy on; without them a fifth of ``data`` is held out.
        target: What to quantize for.
        method: How ranges are chosen: ``minmax``, ``percentile``, ``kl`` or ``mse``; ``auto`` takes for each tensor
            what causes the least error in the outputs, on calibration samples that set no range.
        form: ``qdq`` or ``qoperator``; the same integer function.
        weights: Against x86 without VNNI, where ONNX Runtime saturates pairs of uint8 × int8 products: ``reduced``
            lets no two neighbours be so large; ``u8``, for target ``ort``, stores all as uint8, slower; ``s8`` does
            neither; ``auto`` is ``reduced`` where this processor saturates, else ``s8``.
        per_tensor: One scale for a whole weight.
        skip: Nodes, or operators, to leave float.
        correct_bias: Take the mean error of rounded weights out of the biases.
        rounding: How weights become integers: ``second-order``, by how their inputs vary together on ``data``, last
            and fully connected layers making up for the rounding before them; or each to the ``nearest``.
        equalize: Make the channels between layers alike, for one scale to suit them, where that gains.
        split_outliers: Compute the part of channels that dwarf the others in float where that gains.
        stats: Statistics of an earlier calibration of the same model.
        plan: A plan to obey instead of solving one.
        preprocess: How images become arrays.
        samples: Use that many samples of ``data``, evenly spread.
        skip_bad_samples: Leave unreadable samples out instead of stopping.
        arithmetic: What the integers are computed in; the target's own where None.
        batch: Samples that run at once when accuracy is measured.
        threads: Threads for one operator; 0 is one a core.
        checkpoint: A file for the calibration's state, as for ``calibrate``.
        max_drop: Leave the fewest nodes float with which no more than that many points of the metric are lost
            on samples that no range is chosen on; ``report.budget`` says whether it holds.
        metric: A metric of your own (see `ptq.evaluation.user_metric`); without it, top-1 accuracy where samples are
            labelled, else agreement with float, else the energy of the error.
        progress: Told how far it is.

    Raises:
        ModelError: The model cannot be read, prepared or run.
        DataError: A sample is missing, unreadable or does not fit.
        StatsError: The statistics or the checkpoint belong to another graph.
        PlanError: The plan does not fit.
        UsageError: An option makes no sense.
    """
    if data is None and stats is None and plan is None:
        raise UsageError("no calibration data: pass data or stats")
    if checkpoint is not None and (data is None or stats is not None):
        raise UsageError("a checkpoint needs calibration data; remove it when stats are given")
    if max_drop is not None and data is None and eval_data is None:
        raise UsageError("max_drop needs samples: pass data or eval_data")
    options = QuantizeOptions(
        target, method, form, weights, per_tensor, skip, correct_bias, rounding,
        equalize, split_outliers, arithmetic, max_drop, metric,
    )  # fmt: skip
    options.check_names(plan)
    reading = SampleOptions(preprocess, samples, skip_bad_samples)
    run = RunOptions(threads=threads, evaluation_batch=batch, progress=progress)
    given = Given(open_statistics(stats), plan)

    job = open_job(
        model, data, eval_data, reading, options, run, given=given, search=max_drop is not None
    )
    job = optimize_before_calibration(job)
    calibrated, folds = calibrate_model(job, checkpoint)
    recipe = choose_recipe(job, calibrated, folds)
    calibrated, solved = collect_for_rounding(job, calibrated, recipe)
    recipe, solved, search = search_within_budget(job, calibrated, recipe, solved)
    sessions = SessionCache(run)
    made = quantize_and_check(job, calibrated, recipe, solved, sessions)
    made = compensate_rounding(made, job.samples.calibration, run=run)
    made.calibrated_model.rounder.release()
    report = build_report(
        made, job.samples, sessions, arithmetic=options.arithmetic_name(plan), run=run,
        metric=metric, max_drop=max_drop, search=search,
    )  # fmt: skip
    return Result(
        made.quantized_graph, made.plan, report, calibrated.calibration, source_path(model)
    )


def evaluate(
    model: Model,
    data: DataSource,
    *,
    against: Model | None = None,
    engine: Literal["ort", "integer"] = "ort",
    arithmetic: str = "ort",
    preprocess: Preprocess | None = None,
    samples: int | None = None,
    skip_bad_samples: bool = False,
    batch: int = DEFAULT_RUN.evaluation_batch,
    threads: int = 0,
    metric: Metric | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Measure a model on samples, beside a float model where one is given.

    Drops are counted in ``metric`` as for ``quantize``.

    Raises:
        ModelError: A model cannot be read or run, or has no integers to run in.
        DataError: A sample is missing, unreadable or does not fit.
    """
    graph = open_model(model) if engine == "ort" else require_quantized(open_model(model))
    run = RunOptions(threads=threads, evaluation_batch=batch, progress=progress)
    with explain_failure(graph):
        opened = SampleOptions(preprocess, samples, skip_bad_samples).open(data, graph)
        mine: Engine = (
            session_engine(Session(graph, threads=threads))
            if engine == "ort"
            else integer_engine(executor_matching_ort(graph, arithmetic), graph)
        )
    reference = mine if against is None else reference_engine(open_model(against), graph, run)
    candidates = {} if against is None else {"int8" if engine == "ort" else "integers": mine}
    evaluation = evaluate_engines(
        reference,
        candidates,
        run.track(opened, "evaluating"),
        [name_of(v) for v in graph.outputs],
        batch=run.evaluation_batch if takes_any_batch(graph) else 1,
        metric=metric,
    )
    return replace(evaluation, skipped=tuple(opened.skipped))
