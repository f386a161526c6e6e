"""Quantized model and samples → evaluation, checks and rows, in one report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from ptq.core.errors import DataError, ModelError
from ptq.core.run_options import RunOptions
from ptq.core.targets import get_target
from ptq.data.splits import SampleSplit, count_classes, takes_any_batch
from ptq.evaluation.benefit_check import check_opset
from ptq.evaluation.budget import Budget, BudgetSearch, check_budget
from ptq.evaluation.changed_samples import ChangedSamples
from ptq.evaluation.diagnosis import Diagnosis
from ptq.evaluation.diagnostics import diagnose, fixed_tensors
from ptq.evaluation.engines import (
    find_float_results,
    integer_engine,
    open_integer_engine,
    open_session_engine,
    session_engine,
)
from ptq.evaluation.evaluate import evaluate_engines
from ptq.evaluation.exports.report import Report
from ptq.evaluation.input_range_check import check_input_statistics
from ptq.evaluation.input_shift_check import InputShiftCheck, calibration_inputs
from ptq.evaluation.measurements import Evaluation
from ptq.evaluation.overlap_check import find_overlap
from ptq.evaluation.preprocessing_check import explain_low_accuracy
from ptq.evaluation.report_rows import node_rows, tensor_rows
from ptq.evaluation.sample_count_check import check_sample_count
from ptq.evaluation.session_cache import SessionCache, open_float_engine
from ptq.evaluation.speed import measure_speed
from ptq.evaluation.tasks.task import TaskRequest
from ptq.evaluation.user_metric import Metric
from ptq.executor.executor import Executor
from ptq.executor.runtimes.registry import TargetRuntime
from ptq.executor.runtimes.runtime import RuntimeModel
from ptq.model.graph import Graph
from ptq.model.node import name_of
from ptq.model.session import Session, library_versions
from ptq.rewrite.emit.vnni_saturation import saturable_nodes
from ptq.solver.quantizer import QuantizedModel


def build_report(
    quantized: QuantizedModel,
    samples: SampleSplit,
    sessions: SessionCache,
    *,
    arithmetic: str,
    run: RunOptions,
    inside: TargetRuntime | None = None,
    metric: Metric | None = None,
    task: TaskRequest | None = None,
    max_drop: float | None = None,
    search: BudgetSearch | None = None,
    min_speedup: float | None = None,
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

    Raises:
        ModelError: ONNX Runtime cannot load a model, or the arithmetic cannot express a node.
        DataError: A sample is unreadable or does not fit.
    """
    model, recipe = quantized.calibrated_model, quantized.recipe
    prepared, calibration = model.prepared.graph, model.calibration
    floats = find_float_results(quantized.quantized_graph, arithmetic, quantized.plan.floats)
    executor = Executor(quantized.quantized_graph, arithmetic, floats)
    evaluation, speed, shift = None, None, InputShiftCheck(None)
    input_warnings, refusal = list[Diagnosis](), list[Diagnosis]()
    rows = tensor_rows(prepared, quantized.plan, calibration.tensors)
    if samples.evaluation is not None:
        float_session = sessions.open_float(model)
        int8_session = sessions.open_quantized(quantized.quantized_graph)
        evaluate = partial(
            _evaluate, quantized, samples, float_session, int8_session, executor, floats, run, metric,
            task,
        )  # fmt: skip
        evaluation, shift, problem = _evaluate_inside(
            evaluate, inside, lambda: InputShiftCheck(calibration_inputs(model))
        )
        if inside is not None and problem:
            refusal = [_explain_refusal(inside, problem)]
        feed = next(iter(samples.evaluation)).feed
        timed = Session.for_timing(
            quantized.quantized_graph, threads=run.threads, opened=int8_session
        )
        speed = measure_speed(float_session, timed, feed, least=max(1.0, min_speedup or 0.0))
        float_engine, outputs = session_engine(float_session), map(name_of, model.source.outputs)
        input_warnings += explain_low_accuracy(
            evaluation, samples.evaluation, list(outputs), lambda: float_engine
        )
        del float_engine
        evaluation = replace(evaluation, suspects=())  # the report has them
        del float_session, int8_session, timed
    sessions.close()  # frees memory: the models are serialized below
    used = samples.calibration or samples.evaluation
    range_warning = None
    if used is not None and not input_warnings:
        range_warning = check_input_statistics(model.source, used, run=run)
    applied = used.preprocess if used is not None else None
    row = get_target(quantized.plan.target)
    budget = _check_max_drop(evaluation, max_drop, search)
    if budget is not None and refusal and inside is not None:
        what = "a sample" if inside.model else "the model"
        budget = budget.leave_undecided(f"{inside.runtime.title} cannot run {what}")
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
        nodes=node_rows(prepared, quantized.plan),
        saturable=saturable_nodes(quantized.quantized_graph) if row.int16_pairs_saturate else (),
        budget=budget,
        search=search,
        suspects=(
            *refusal,
            *input_warnings,
            *_self_check_diagnoses(quantized),
            *shift.find(),
            *overlap.warnings,
            *([] if range_warning is None else [range_warning]),
            *check_opset(model.source.opset, quantized.quantized_graph.opset),
            *diagnose(
                quantized.plan,
                calibration.tensors,
                rows,
                samples.calibration,
                calibration.channels,
                fixed_tensors(prepared),
                _count_classes(evaluation, model.source),
            ),
            *([] if evaluation is None else check_sample_count(evaluation, budget)),
        ),
        skipped=tuple(_list_skipped(samples).items()),
        shared_samples=overlap.count,
        calibration_digest="" if samples.calibration is None else samples.calibration.digest,
        evaluation_digest="" if samples.evaluation is None else samples.evaluation.digest,
        versions=library_versions(),
    )


def _count_classes(evaluation: Evaluation | None, graph: Graph) -> int:
    """The number of classes that the model tells apart; 0 without a classification."""
    task = None if evaluation is None else evaluation.task
    is_classifier = task is not None and task.name == "classify"
    return max(count_classes(graph).values(), default=0) if is_classifier else 0


def _self_check_diagnoses(quantized: QuantizedModel) -> Iterator[Diagnosis]:
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


def _evaluate_inside(
    evaluate: Callable[[InputShiftCheck, RuntimeModel | None], Evaluation],
    inside: TargetRuntime | None,
    start_check: Callable[[], InputShiftCheck],
) -> tuple[Evaluation, InputShiftCheck, str]:
    """The evaluation in the runtime that the model is for; in ONNX Runtime if that one does not run it.

    Args:
        evaluate: Evaluates in a runtime, or with None in ONNX Runtime.
        inside: The runtime; None for ONNX Runtime.
        start_check: A new check of the inputs, for each attempt.

    Returns:
        The evaluation; the check of its inputs; why the runtime does not run the model, empty if it does.
    """
    if inside is not None and inside.measured_model is not None:
        shift = start_check()
        try:
            evaluation = evaluate(shift, inside.measured_model)
        except (DataError, ModelError) as error:
            problem = str(error)
        else:
            return replace(evaluation, runtime=inside.runtime.name), shift, ""
    else:
        problem = "" if inside is None else inside.problem
    shift = start_check()
    return evaluate(shift, None), shift, problem


def _evaluate(
    quantized: QuantizedModel,
    samples: SampleSplit,
    float_session: Session,
    int8_session: Session,
    executor: Executor,
    floats: frozenset[str],
    run: RunOptions,
    metric: Metric | None,
    task: TaskRequest | None,
    shift: InputShiftCheck,
    inside: RuntimeModel | None,
) -> Evaluation:
    assert samples.evaluation is not None
    source, measured = quantized.calibrated_model.source, samples.evaluation
    takes_any = takes_any_batch(source) and not (inside and inside.fixed_batch)
    return evaluate_engines(
        session_engine(float_session),
        {
            "int8": session_engine(int8_session if inside is None else inside),
            "integers": integer_engine(executor, quantized.quantized_graph),
        },
        run.track(measured, "evaluating"),
        [name_of(v) for v in source.outputs],
        batch=run.evaluation_batch if takes_any else 1,
        metric=metric,
        task=TaskRequest.from_graph(None, source) if task is None else task,
        labelling=lambda: measured.labelling,
        changed=ChangedSamples("int8", measured.preprocess, source.metadata),
        watch=shift.add,
        openers=[
            partial(
                open_float_engine, source, quantized.calibrated_model.prepared.graph, run.for_job()
            ),
            None
            if inside is not None
            else partial(open_session_engine, quantized.quantized_graph, run.for_job()),
            partial(open_integer_engine, quantized.quantized_graph, executor.arithmetic, floats),
        ],
        run=run,
    )


def _explain_refusal(inside: TargetRuntime, reason: str) -> Diagnosis:
    """What it means that a runtime does not load the model that was made for it, or fails on a sample.

    Args:
        inside: The runtime.
        reason: Its own words.
    """
    title = inside.runtime.title
    if inside.model is not None:
        what = f"{title} fails on a sample, so accuracy is that of ONNX Runtime: {reason}"
        advice = "give samples of the shapes that the file takes; if a node is named, keep it in float (option skip)"
    else:
        what = f"{title} cannot load it: {reason}"
        advice = "do not use it there; keep the node that is named in float (option skip), and report this"
    return Diagnosis(
        what,
        "the quantized model",
        advice,
        serious=True,
        headline=True,
        topic="does-not-load",
    )
