"""The verb ``quantize``: the pipeline as a list of stages.

result = ptq.quantize("model.onnx", "images/")
result.save("model.int8.onnx")
print(result.report.to_markdown())
"""

from __future__ import annotations

import os
from collections.abc import Collection

from ptq.api.build_result import build_result
from ptq.api.complete_report import complete_report
from ptq.api.expected_stages import list_expected_stages
from ptq.api.target_runtime import open_target_runtime
from ptq.core.errors import UsageError
from ptq.core.option_checks import refuse_unknown_options, require_flag, require_path
from ptq.core.plan import Plan
from ptq.core.run_options import DEFAULT_RUN, Progress, RunOptions
from ptq.core.targets import TargetName
from ptq.data import DataSource, Preparation
from ptq.data.sample_store import CacheOption
from ptq.data.splits import SampleOptions
from ptq.data.workers.cluster_adapters import Cluster
from ptq.data.workers.start_workers import resolve_data, start_workers, stop_workers_at_end
from ptq.evaluation.build_report import build_report
from ptq.evaluation.early_task import require_fitting_task
from ptq.evaluation.report.benefit_check import require_gain
from ptq.evaluation.result import Result
from ptq.evaluation.runs.outputs_ahead import run_float_ahead
from ptq.evaluation.runs.session_cache import SessionCache
from ptq.evaluation.tasks.label_options import LabelOptions
from ptq.evaluation.tasks.task import TaskName, TaskRequest
from ptq.evaluation.user_metric import Metric
from ptq.executor.arithmetics import ArithmeticName
from ptq.kernels.thread_pool import use_given_threads
from ptq.model.open import Model, get_source_path
from ptq.observers.calibration_file import Calibration
from ptq.optimization.compensation import compensate_rounding
from ptq.optimization.decision_log import log_decisions, log_float_nodes
from ptq.optimization.earlier_run import open_given
from ptq.optimization.effort import DEFAULT_EFFORT, EffortName
from ptq.optimization.job import open_job
from ptq.optimization.mixed_precision.budget_search import search_within_budget
from ptq.optimization.mixed_precision.knee.knee import keep_knee_float
from ptq.optimization.mixed_precision.model_times import estimate_speed
from ptq.optimization.options import QuantizeOptions
from ptq.optimization.pipeline import prepare_draft
from ptq.optimization.preference import DEFAULT_PREFERENCE, PreferenceName
from ptq.optimization.self_check.self_check import check_draft, quantize_and_check
from ptq.rewrite.prepare.prepare import OpsetOption
from ptq.rewrite.tflite.write import InputOutputType
from ptq.solver.partition.cost_table import OrtCostTable
from ptq.solver.partition.cost_table_file import decide_by_given_table
from ptq.solver.quantizer import finish_for_runtime
from ptq.solver.recipe import (
    DEFAULT_METHOD,
    MethodName,
    QuantizedForm,
    RoundingMethod,
    WeightFormatOption,
)


@refuse_unknown_options
@stop_workers_at_end
@decide_by_given_table
@use_given_threads
def quantize(
    model: Model,
    data: DataSource | None = None,
    *,
    eval_data: DataSource | None = None,
    target: TargetName = "ort",
    method: MethodName = DEFAULT_METHOD,
    form: QuantizedForm = "qdq",
    weights: WeightFormatOption = "auto",
    per_tensor: bool = False,
    skip: Collection[str] | str = (),
    correct_bias: bool = True,
    rounding: RoundingMethod = "second-order",
    equalize: bool = True,
    split_outliers: bool = True,
    effort: EffortName = DEFAULT_EFFORT,
    prefer: PreferenceName = DEFAULT_PREFERENCE,
    min_speedup: float | None = None,
    cost_table: OrtCostTable | str | os.PathLike[str] | None = None,
    stats: Calibration | str | os.PathLike[str] | None = None,
    plan: Plan | str | os.PathLike[str] | None = None,
    preprocess: Preparation | None = None,
    samples: int | None = None,
    skip_bad_samples: bool = False,
    cache: CacheOption | None = None,
    arithmetic: ArithmeticName | None = None,
    batch: int = DEFAULT_RUN.evaluation_batch,
    threads: int = 0,
    workers: int = 1,
    cluster: Cluster | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    max_drop: float | None = None,
    strict: bool = False,
    opset: OpsetOption = "auto",
    metric: Metric | None = None,
    task: TaskName | None = None,
    boxes: str | os.PathLike[str] | None = None,
    transcripts: str | os.PathLike[str] | None = None,
    alphabet: str | os.PathLike[str] | None = None,
    metadata: bool = True,
    force: bool = False,
    io: InputOutputType = "float",
    static_batch: int | None = None,
    progress: Progress | None = None,
) -> Result:
    """Quantize a model and measure the loss of accuracy.

    Args:
        model: A float model.
        data: Calibration samples; not needed with ``stats`` or ``plan``.
        eval_data: Samples to measure accuracy on; without them a fifth of ``data`` is held out.
        target: The name of the runtime.
        method: The range method: ``minmax``, ``percentile``, ``kl`` or ``mse``. ``auto`` takes for each tensor the
            method with the least output error, by cross-validation on calibration samples.
        form: ``qdq`` or ``qoperator``; both compute the same integer function. ``tflite``, for targets
            ``litert``, ``litert-xnnpack`` and ``litert-a16``, is LiteRT's file; it needs the package
            ``ai-edge-litert``.
        weights: The integer format of weights. On x86 without VNNI, ONNX Runtime saturates sums of two uint8 × int8
            products. ``reduced`` limits neighbouring weights so that no sum saturates. ``u8``, for target ``ort``,
            stores weights as uint8, which is slower. ``s8`` does neither. ``auto`` is ``reduced`` if this processor
            and the target's runtime saturate, else ``s8``.
        per_tensor: Use one scale for a whole weight.
        skip: Nodes, of the prepared or of the given model, or operators, that stay float; a string is one name.
        correct_bias: Correct biases for the mean error of quantized weights and inputs.
        rounding: How weights become integers. ``second-order`` is GPTQ-style rounding from input covariances on
            ``data``, plus error compensation in the last and fully connected layers. ``nearest`` rounds each weight.
        equalize: Equalize channels (cross-layer equalization, SmoothQuant) if held-out samples improve.
        split_outliers: Compute outlier channels in float (LLM.int8) if held-out samples improve.
        effort: ``fast`` makes no trials: ranges by ``mse``; no equalization, outlier splitting or error
            compensation. ``best`` takes more samples and runs for each decision than ``default``.
        prefer: ``balanced`` leaves nodes float whose integers cost much error for little time. ``accuracy``
            spends more time on accuracy; ``speed`` spends none.
        min_speedup: The lowest speed relative to float that is acceptable; the report says if it is kept.
        cost_table: A table of times from ``tune``, or its file; it decides in place of the shipped one.
        stats: Statistics of an earlier calibration of the same model, or their file.
        plan: A plan, or its file, to apply unchanged instead of solving one.
        preprocess: How images, audio or text become arrays.
        samples: Use that many samples of ``data``, evenly spread.
        skip_bad_samples: Leave unreadable samples out instead of stopping.
        cache: Where samples are kept on disk between passes, a folder or a size; see `ptq.data.open_samples`.
        arithmetic: The integer arithmetic that predicts the results; None for the target's own.
        batch: Samples that run at once when accuracy is measured.
        threads: Threads of ONNX Runtime, and of ptq itself; 0 is one for each core, or with workers one.
        workers: Processes for samples, this one included; see `ptq.data.workers.worker_pool`. The result is the same.
        cluster: Workers elsewhere in place of processes, as for ``calibrate``. The result is the same.
        checkpoint: A file for the state of the calibration, as for ``calibrate``.
        max_drop: The accuracy budget in points of the metric. The fewest nodes that meet it stay float, measured on
            samples that no range is chosen on; ``report.budget`` holds the result.
        strict: Raise `BudgetError`, which carries the ``result``, unless the samples show that the budget holds, and
            if the model is slower than ``min_speedup``.
        opset: ``keep`` leaves the opset; functions that need a newer one stay float. ``auto`` raises it for them.
        metric: Your own metric (see `ptq.evaluation.user_metric`). Without it: top-1 accuracy if samples are
            labelled, else agreement of the task's decisions with float, else the energy of the error.
        task: What the outputs decide: ``classify``, ``detect``, ``ctc``, ``embed``, ``segment`` or ``sequence``;
            ``none`` if they decide nothing. None recognizes it from shapes, names and values of the outputs.
        boxes: Labels of boxes of the samples that accuracy is measured on: COCO's JSON file, or a folder of YOLO's
            text files. mAP50 and mAP50-95 are measured.
        transcripts: Labels of texts of these samples: a table of samples and texts, or a text for each sample on a
            line. Exact lines and wrong characters are measured.
        alphabet: The characters of a recognizer's classes, one a line, or a JSON vocabulary; by default those of the
            model's metadata.
        metadata: Record preprocessing and provenance in the metadata of the quantized model.
        force: Return a result even if it is more than 1 MiB larger than the float model and slower.
        io: Element type of inputs and outputs: ``float``; ``int8``, the integers of the target without quantizers
            at the border, such as uint8; or ``float16``.
        static_batch: The batch of the quantized model. None leaves it open; a `.tflite` file has 1 where an
            operator does not allow an open one.
        progress: Called with each stage and its number of steps; see `ptq.core.run_options.Progress`.

    Raises:
        ModelError: The model cannot be read, prepared or run.
        DataError: A sample is missing, unreadable or does not fit.
        StatsError: The statistics or the checkpoint belong to another graph.
        PlanError: The plan does not fit.
        UsageError: An option makes no sense.
        NoGainError: The result is more than 1 MiB larger than the float model and clearly slower; unless ``force``.
            The error carries it as its ``result``.
        BudgetError: With ``strict``, the budget is exceeded, or the samples cannot decide it; or the model is
            too slow.
        Cancelled: The progress callback returned False or raised an exception.
    """
    if data is None and stats is None and plan is None:
        raise UsageError("no calibration data: pass data, stats or a plan")
    if checkpoint is not None and (data is None or stats is not None):
        raise UsageError("a checkpoint needs calibration data; remove it when stats are given")
    if max_drop is not None and data is None and eval_data is None:
        raise UsageError("`max_drop` needs samples; give `data` or `eval_data`")
    if checkpoint is not None:
        require_path("checkpoint", checkpoint)
    metadata, force = require_flag("metadata", metadata), require_flag("force", force)
    options = QuantizeOptions(
        target, method, form, weights, per_tensor, skip, correct_bias, rounding,
        equalize, split_outliers, arithmetic, max_drop, metric, opset, strict, effort,
        prefer, min_speedup, task, io, static_batch, LabelOptions(boxes, transcripts, alphabet),
    )  # fmt: skip
    given = open_given(stats, plan)
    options.check_target(given.plan)
    reading = SampleOptions(preprocess, samples, skip_bad_samples, cache=cache)
    run = start_workers(
        RunOptions(threads=threads, evaluation_batch=batch, progress=progress), workers, cluster
    )
    data, eval_data = resolve_data(data, cluster), resolve_data(eval_data, cluster)
    job = open_job(
        model, data, eval_data, reading, options, run, given=given, search=max_drop is not None
    )
    labels = options.labels.read(job.samples.evaluation, job.source)
    request = TaskRequest.from_graph(task, job.source, labels)
    require_fitting_task(job.source, job.samples.evaluation, request, run)
    run.expect(list_expected_stages(job))
    sessions, measured_on = SessionCache(run), job.samples.evaluation
    job, calibrated, draft = prepare_draft(
        job, checkpoint, alone=lambda model: run_float_ahead(sessions, model, measured_on)
    )
    draft, frontier = keep_knee_float(
        job,
        draft,
        sessions,
        lambda one: check_draft(job, calibrated, one, sessions),
    )
    draft, search = search_within_budget(job, calibrated, draft, labels)
    made = quantize_and_check(job, calibrated, draft, sessions)
    log_decisions(made.changes, (*job.prepared.describe_changes(), draft.recipe.range_note))
    log_float_nodes(made.plan.floats)
    before = made
    if job.effort.compensate:
        made = compensate_rounding(made, job.samples.calibration, run=run)
    log_decisions(made.changes, before.changes)
    made.calibrated_model.release()
    finished, tflite = finish_for_runtime(made), job.options.to_tflite_options(job.samples)
    inside = open_target_runtime(finished, job.samples, tflite, run)
    report = build_report(
        finished, job.samples, sessions, arithmetic=options.arithmetic_name(given.plan), run=run,
        inside=inside, metric=metric,
        task=request,
        max_drop=options.max_drop, search=search, min_speedup=options.min_speedup,
        has_half_border=options.io == "float16",
    )  # fmt: skip
    report = complete_report(
        report, job, finished, inside, tflite, estimated_speed=estimate_speed(made), frontier=frontier,
    )  # fmt: skip
    result = build_result(
        job, finished, report, reading, get_source_path(model), tflite, metadata=metadata
    )
    if not force:
        require_gain(result.report, result)
    if options.strict:
        report.require_budget(result)
    return result
