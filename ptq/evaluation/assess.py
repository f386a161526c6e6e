"""Measures a quantized model beside the float one, and gathers all there is to say in a Report."""

from __future__ import annotations

from ptq.core.run_options import RunOptions
from ptq.core.targets import get_target
from ptq.data.splits import SampleSplit, takes_any_batch
from ptq.evaluation.diagnostics import diagnose
from ptq.evaluation.drop import Budget, BudgetSearch, check_budget
from ptq.evaluation.evaluate import (
    Evaluation,
    evaluate_engines,
    integer_engine,
    session_engine,
    speed_ratio,
)
from ptq.evaluation.input_range_check import check_input_statistics
from ptq.evaluation.preprocessing_check import LOW_ACCURACY, find_better_preprocessing
from ptq.evaluation.report import Diagnosis, Report
from ptq.evaluation.report_rows import node_rows, tensor_rows
from ptq.evaluation.session_cache import SessionCache
from ptq.evaluation.user_metric import Metric
from ptq.executor.executor import Executor
from ptq.model import external_data
from ptq.model.node import name_of
from ptq.model.session import Session, library_versions
from ptq.rewrite.emit.vnni_saturation import saturable_nodes
from ptq.solver.quantizer import QuantizedModel


def build_report(
    made: QuantizedModel,
    parts: SampleSplit,
    loaded: SessionCache,
    *,
    arithmetic: str,
    run: RunOptions,
    metric: Metric | None = None,
    max_drop: float | None = None,
    search: BudgetSearch | None = None,
) -> Report:
    """Run float, int8 and integers on the evaluation samples, if there are any, and report.

    Args:
        made: What to report on.
        parts: Samples.
        loaded: Where the models are open, or will be.
        arithmetic: What the integers are computed in.
        run: How the job runs.
        metric: What drops are counted in, as for `evaluate`.
        max_drop: The budget, in points; None for none.
        search: What was left float for it.

    Raises:
        ModelError: ONNX Runtime does not take a model, or the arithmetic cannot express a node.
        DataError: A sample is unreadable or does not fit.
    """
    ground, recipe = made.calibrated_model, made.recipe
    prepared, calibration = ground.prepared.graph, ground.calibration
    executor = Executor(made.quantized_graph, arithmetic)
    evaluation, speed = None, None
    doubtful: tuple[Diagnosis, ...] = ()
    rows = tensor_rows(prepared, made.plan, calibration.tensors)
    skipped = _skipped_samples(parts)  # each reading of samples begins the list anew
    if parts.evaluation is not None:
        before = loaded.open_float(ground)
        after = loaded.open_quantized(made.quantized_graph)
        evaluation = _evaluate(made, parts, before, after, executor, run, metric)
        skipped |= _skipped_samples(parts)
        speed = speed_ratio(before, after, next(iter(parts.evaluation)).feed)
        doubtful = _check_preprocessing(evaluation, before, parts, made)
        del before, after
    loaded.close()  # the models are serialized below
    used = parts.calibration or parts.evaluation
    unlike = None
    if used is not None and not doubtful:
        unlike = check_input_statistics(ground.source, used, run=run)
    applied = used.preprocess if used is not None else None
    return Report(
        model=ground.name,
        target=made.plan.target,
        method=recipe.method,
        form=recipe.form,
        arithmetic=arithmetic,
        changes=made.changes,
        preprocessing=applied.describe() if applied is not None else {},
        calibration_samples=calibration.samples,
        evaluated_on=parts.description,
        evaluation=evaluation,
        float_bytes=external_data.serialized_size(ground.source.model),
        int8_bytes=external_data.serialized_size(made.quantized_graph.model),
        speed=speed,
        islands=executor.islands,
        tensors=rows,
        nodes=node_rows(prepared, made.plan),
        saturable=(
            saturable_nodes(made.quantized_graph)
            if get_target(made.plan.target).int16_pairs_saturate
            else ()
        ),
        budget=_check_max_drop(evaluation, max_drop),
        search=search,
        suspects=(
            *_self_check_diagnosis(made),
            *doubtful,
            *([] if unlike is None else [unlike]),
            *diagnose(
                made.plan, calibration.tensors, rows, parts.calibration, calibration.channels
            ),
        ),
        skipped=tuple(skipped.items()),
        versions=library_versions(),
    )


def _self_check_diagnosis(made: QuantizedModel) -> tuple[Diagnosis, ...]:
    """What the self-check found in a plan that is obeyed all the same."""
    advice = "the plan is obeyed as it is; solve it anew, or leave the nodes at fault float in it"
    return (
        ()
        if made.check_failure is None
        else (Diagnosis(made.check_failure, "the plan given", advice),)
    )


def _check_preprocessing(
    evaluation: Evaluation, before: Session, parts: SampleSplit, made: QuantizedModel
) -> tuple[Diagnosis, ...]:
    """Whether images are prepared otherwise than the float model wants, where it is often wrong."""
    accuracy = evaluation.forms["float"].accuracy
    if accuracy is None or accuracy.top1 >= LOW_ACCURACY or parts.evaluation is None:
        return ()
    names = [name_of(v) for v in made.calibrated_model.source.outputs]
    found = find_better_preprocessing(before, parts.evaluation, names.index(evaluation.head))
    return () if found is None else (found,)


def _check_max_drop(evaluation: Evaluation | None, max_drop: float | None) -> Budget | None:
    """What int8 loses in ONNX Runtime, held against the budget."""
    drop = None if evaluation is None else evaluation.forms["int8"].drop
    return None if drop is None or max_drop is None else check_budget(drop, max_drop)


def _skipped_samples(parts: SampleSplit) -> dict[str, str]:
    """Bad samples that the latest readings left out, with the reason."""
    return dict(s for p in (parts.calibration, parts.evaluation) if p for s in p.skipped)


def _evaluate(
    made: QuantizedModel,
    parts: SampleSplit,
    before: Session,
    after: Session,
    executor: Executor,
    run: RunOptions,
    metric: Metric | None,
) -> Evaluation:
    assert parts.evaluation is not None
    return evaluate_engines(
        session_engine(before),
        {"int8": session_engine(after), "integers": integer_engine(executor, made.quantized_graph)},
        run.track(parts.evaluation, "evaluating"),
        [name_of(v) for v in made.calibrated_model.source.outputs],
        batch=run.evaluation_batch if takes_any_batch(made.calibrated_model.source) else 1,
        metric=metric,
    )
