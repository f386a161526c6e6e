"""Quantized model and samples → evaluation, checks and rows, in one report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ptq.core.run_options import RunOptions
from ptq.core.targets import get_target
from ptq.data.splits import SampleSplit, count_classes
from ptq.evaluation.budget import BudgetSearch, check_budget
from ptq.evaluation.checks.empty_cache_check import check_empty_cache
from ptq.evaluation.checks.input_range_check import check_input_statistics
from ptq.evaluation.checks.input_shift_check import InputShiftCheck
from ptq.evaluation.checks.mode_check import check_mode
from ptq.evaluation.checks.noise_check import check_noise, leave_noise_undecided
from ptq.evaluation.checks.output_check import diagnose_outputs
from ptq.evaluation.checks.overlap_check import find_overlap
from ptq.evaluation.checks.preprocessing_check import explain_low_accuracy
from ptq.evaluation.checks.sample_count_check import check_sample_count
from ptq.evaluation.checks.softmax_length_check import check_softmax_lengths
from ptq.evaluation.diagnosis import Diagnosis
from ptq.evaluation.diagnostics import diagnose, find_fixed_tensors
from ptq.evaluation.drop import Budget
from ptq.evaluation.exports.report import Report
from ptq.evaluation.measurements import Evaluation
from ptq.evaluation.quantized_forms import QuantizedForms
from ptq.evaluation.report.benefit_check import check_opset
from ptq.evaluation.report.report_rows import build_node_rows, build_tensor_rows
from ptq.evaluation.runs.engines import find_float_results, make_session_engine
from ptq.evaluation.runs.session_cache import SessionCache
from ptq.evaluation.speed import measure_speed
from ptq.evaluation.tasks.task import TaskRequest
from ptq.evaluation.user_metric import Metric
from ptq.executor.executor import Executor
from ptq.executor.runtimes.registry import TargetRuntime
from ptq.model.graph import Graph
from ptq.model.node import get_name
from ptq.model.session.session import Session, list_library_versions
from ptq.rewrite.emit.vnni_saturation import find_saturable_nodes
from ptq.solver.quantizer import QuantizedModel


def build_report(
    quantized: QuantizedModel,
    samples: SampleSplit,
    sessions: SessionCache,
    *,
    arithmetic: str,
    run: RunOptions,
    inside: TargetRuntime | None,
    metric: Metric | None,
    task: TaskRequest | None,
    max_drop: float | None,
    search: BudgetSearch | None,
    min_speedup: float | None,
    has_half_border: bool = False,
) -> Report:
    """Run float, int8 and integers on the evaluation samples, if there are any, and build the report.

    The sizes of the files are 0 in it: they are known when the result is.

    Args:
        quantized: The quantized model.
        samples: Calibration and evaluation samples.
        sessions: Open sessions of the models; closed here.
        arithmetic: Name of the integer executor's arithmetic.
        run: How the job runs.
        inside: The runtime that the model is for, which measures it if it can; None for ONNX Runtime.
        metric: Metric of the drops, as for `evaluate_engines`.
        task: What the outputs decide, with labels of boxes or texts; None to recognize it.
        max_drop: Accuracy budget in points; None for none.
        search: Result of the budget search; None for none.
        min_speedup: The lowest speed relative to float that was asked for; None for none.
        has_half_border: Whether inputs and outputs of the written model are float16; accuracy is that of such a one.

    Raises:
        ModelError: ONNX Runtime cannot load a model, or the arithmetic cannot express a node.
        DataError: A sample is unreadable or does not fit.
    """
    model, recipe = quantized.calibrated_model, quantized.recipe
    prepared, calibration = model.prepared.graph, model.calibration
    floats = find_float_results(quantized.quantized_graph, arithmetic, quantized.plan.floats)
    executor = Executor(quantized.quantized_graph, arithmetic, floats)
    evaluation, speed, refusal, shift = None, None, None, InputShiftCheck(None)
    input_warnings: tuple[Diagnosis, ...] = ()
    rows = build_tensor_rows(prepared, quantized.plan, calibration.tensors, quantized.rounded)
    if samples.evaluation is not None:
        float_session = sessions.open_float(model)
        int8_session = sessions.open_quantized(quantized.quantized_graph)
        forms = QuantizedForms(
            quantized=quantized,
            samples=samples.evaluation,
            float_session=float_session,
            float_opener=sessions.float_opener(model),
            known=sessions.known,
            int8_session=int8_session,
            executor=executor,
            floats=floats,
            metric=metric,
            task=task,
            has_half_border=has_half_border,
            run=run,
        )
        evaluation, shift, refusal = forms.evaluate(inside)
        feed = next(iter(samples.evaluation)).feed
        timed = Session.for_timing(
            quantized.quantized_graph, threads=run.threads, opened=int8_session
        )
        speed = measure_speed(float_session, timed, feed, least=max(1.0, min_speedup or 0.0))
        float_engine, outputs = (
            make_session_engine(float_session),
            map(get_name, model.source.outputs),
        )
        input_warnings = explain_low_accuracy(
            evaluation, samples.evaluation, list(outputs), lambda: float_engine
        )
        del float_engine
        evaluation = replace(evaluation, suspects=())  # the report has them
        del forms, float_session, int8_session, timed
    sessions.close()  # frees memory: the models are serialized below
    used = samples.calibration or samples.evaluation
    range_warning = None
    if used is not None and not input_warnings:
        range_warning = check_input_statistics(model.source, used, run=run)
    length_warning = check_softmax_lengths(prepared, quantized.plan, samples.calibration, run=run)
    cache_warning = check_empty_cache(model.source, samples.calibration)
    applied = used.preprocess if used is not None else None
    row = get_target(quantized.plan.target)
    budget = _check_max_drop(evaluation, max_drop, search)
    if budget is not None and refusal and inside is not None:
        what = "a sample" if inside.model else "the model"
        budget = budget.leave_undecided(f"{inside.runtime.title} cannot run {what}")
    noise = check_noise(model.prepared.graph)
    budget = leave_noise_undecided(budget, noise)
    overlap = find_overlap(samples, calibration.contents)
    return Report(
        model=model.name,
        target=quantized.plan.target,
        method=recipe.method,
        form=recipe.form,
        arithmetic=arithmetic,
        changes=quantized.changes,
        preprocessing=applied.describe() if applied is not None else {},
        calibration_samples=calibration.samples,
        evaluated_on=overlap.description,
        evaluation=evaluation,
        float_bytes=0,
        int8_bytes=0,
        speed=None if speed is None else speed.ratio,
        speed_interval=None if speed is None else speed.interval,
        min_speedup=min_speedup,
        islands=executor.islands,
        tensors=rows,
        nodes=build_node_rows(prepared, quantized.plan),
        saturable=find_saturable_nodes(quantized.quantized_graph, pairs_channels=row.pairs_channels)
        if row.int16_pairs_saturate
        else (),
        budget=budget,
        search=search,
        suspects=(
            *([] if refusal is None else [refusal]),
            *noise,
            *check_mode(model.source),
            *input_warnings,
            *_diagnose_self_check(quantized),
            *shift.find(),
            *overlap.warnings,
            *([] if range_warning is None else [range_warning]),
            *([] if length_warning is None else [length_warning]),
            *([] if cache_warning is None else [cache_warning]),
            *_check_opset(quantized),
            *diagnose(
                quantized.plan,
                calibration.tensors,
                rows,
                samples.calibration,
                calibration.channels,
                find_fixed_tensors(prepared),
                _count_classes(evaluation, model.source),
            ),
            *([] if evaluation is None else diagnose_outputs(evaluation)),
            *([] if evaluation is None else check_sample_count(evaluation, budget)),
        ),
        skipped=tuple(_list_skipped(samples).items()),
        shared_samples=overlap.count,
        calibration_digest="" if samples.calibration is None else samples.calibration.digest,
        evaluation_digest="" if samples.evaluation is None else samples.evaluation.digest,
        versions=list_library_versions(),
    )


def _count_classes(evaluation: Evaluation | None, graph: Graph) -> int:
    """The number of classes that the model tells apart; 0 without a classification."""
    task = None if evaluation is None else evaluation.task
    is_classifier = task is not None and task.name == "classify"
    return max(count_classes(graph).values(), default=0) if is_classifier else 0


def _diagnose_self_check(quantized: QuantizedModel) -> Iterator[Diagnosis]:
    """What the self-check found: a failure of a given plan, which is applied nevertheless; outputs that are noise."""
    if quantized.check_failure is not None:
        advice = (
            "the plan is applied unchanged; solve a new plan, or keep the failing nodes in float "
            "in it"
        )
        yield Diagnosis(quantized.check_failure, "the given plan", advice, serious=True)
    if quantized.instability:
        advice = (
            "no accuracy can be measured on these samples; give samples as those that the model "
            "was trained on"
        )
        yield Diagnosis(quantized.instability, "calibration samples", advice, serious=True)


def _check_max_drop(
    evaluation: Evaluation | None, max_drop: float | None, search: BudgetSearch | None
) -> Budget | None:
    drop = None if evaluation is None else evaluation.forms["int8"].drop
    return None if drop is None or max_drop is None else check_budget(drop, max_drop, search)


def _list_skipped(samples: SampleSplit) -> dict[str, str]:
    """Bad samples that were left out, each with its reason."""
    return dict(
        s for subset in (samples.calibration, samples.evaluation) if subset for s in subset.skipped
    )


def _check_opset(quantized: QuantizedModel) -> Iterator[Diagnosis]:
    """Diagnose a raised opset; a `.tflite` file has none."""
    if quantized.recipe.form != "tflite":
        before = quantized.calibrated_model.source.opset
        yield from check_opset(before, quantized.quantized_graph.opset)
