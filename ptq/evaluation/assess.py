"""Measures a quantized model beside the float one, and gathers all there is to say in a Report."""

from __future__ import annotations

from ptq.data.progress import Progress, told
from ptq.data.splits import Parts, takes_any_batch
from ptq.evaluation.diagnostics import suspects
from ptq.evaluation.drop import Budget, Search, held_against
from ptq.evaluation.evaluate import (
    Evaluation,
    evaluate,
    integer_engine,
    session_engine,
    speed_ratio,
)
from ptq.evaluation.input_range_check import expected
from ptq.evaluation.preprocessing_check import DOUBTFUL, mismatch
from ptq.evaluation.report import Report, Suspect
from ptq.evaluation.report_rows import node_rows, tensor_rows
from ptq.evaluation.session_cache import Loaded
from ptq.evaluation.user_metric import Metric
from ptq.executor.executor import Executor
from ptq.model import external_data
from ptq.model.node import name_of
from ptq.model.session import Session, versions
from ptq.rewrite.emit.vnni_saturation import saturable_nodes
from ptq.solver.quantizer import Quantization


def assess(
    made: Quantization,
    parts: Parts,
    loaded: Loaded,
    *,
    arithmetic: str,
    batch: int,
    progress: Progress | None,
    metric: Metric | None = None,
    max_drop: float | None = None,
    search: Search | None = None,
) -> Report:
    """Run float, int8 and integers on the evaluation samples, if there are any, and report.

    Args:
        made: What to report on.
        parts: Samples.
        loaded: Where the models are open, or will be.
        arithmetic: What the integers are computed in.
        batch: Samples that run at once.
        progress: Told how far it is.
        metric: What drops are counted in, as for `evaluate`.
        max_drop: The budget, in points; None for none.
        search: What was left float for it.

    Raises:
        ModelError: ONNX Runtime does not take a model, or the arithmetic cannot express a node.
        DataError: A sample is unreadable or does not fit.
    """
    ground, recipe = made.ground, made.recipe
    prepared, calibration = ground.prepared.graph, ground.calibration
    executor = Executor(made.quantized, arithmetic)
    evaluation, speed = None, None
    doubtful: tuple[Suspect, ...] = ()
    rows = tensor_rows(prepared, made.plan, calibration.tensors)
    skipped = _skipped(parts)  # each reading of samples begins the list anew
    if parts.evaluation is not None:
        before = loaded.float(ground)
        after = loaded.quantized(made.quantized)
        evaluation = _evaluation(made, parts, before, after, executor, batch, progress, metric)
        skipped |= _skipped(parts)
        speed = speed_ratio(before, after, next(iter(parts.evaluation)).feed)
        doubtful = _mismatch(evaluation, before, parts, made)
        del before, after
    loaded.close()  # the models are serialized below
    used = parts.calibration or parts.evaluation
    unlike = None
    if used is not None and not doubtful:
        unlike = expected(ground.source, used, threads=loaded.threads)
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
        evaluated_on=parts.described,
        evaluation=evaluation,
        float_bytes=external_data.size(ground.source.model),
        int8_bytes=external_data.size(made.quantized.model),
        speed=speed,
        islands=executor.islands,
        tensors=rows,
        nodes=node_rows(prepared, made.plan),
        saturable=saturable_nodes(made.quantized) if made.plan.target == "ort" else (),
        budget=_budget(evaluation, max_drop),
        search=search,
        suspects=(
            *_unmended(made),
            *doubtful,
            *([] if unlike is None else [unlike]),
            *suspects(
                made.plan, calibration.tensors, rows, parts.calibration, calibration.channels
            ),
        ),
        skipped=tuple(skipped.items()),
        versions=versions(),
    )


def _unmended(made: Quantization) -> tuple[Suspect, ...]:
    """What the self-check found in a plan that is obeyed all the same."""
    advice = "the plan is obeyed as it is; solve it anew, or leave the nodes at fault float in it"
    return () if made.fault is None else (Suspect(made.fault, "the plan given", advice),)


def _mismatch(
    evaluation: Evaluation, before: Session, parts: Parts, made: Quantization
) -> tuple[Suspect, ...]:
    """Whether images are prepared otherwise than the float model wants, where it is often wrong."""
    accuracy = evaluation.forms["float"].accuracy
    if accuracy is None or accuracy.top1 >= DOUBTFUL or parts.evaluation is None:
        return ()
    names = [name_of(v) for v in made.ground.source.outputs]
    found = mismatch(before, parts.evaluation, names.index(evaluation.head))
    return () if found is None else (found,)


def _budget(evaluation: Evaluation | None, max_drop: float | None) -> Budget | None:
    """What int8 loses in ONNX Runtime, held against the budget."""
    drop = None if evaluation is None else evaluation.forms["int8"].drop
    return None if drop is None or max_drop is None else held_against(drop, max_drop)


def _skipped(parts: Parts) -> dict[str, str]:
    """Bad samples that the latest readings left out, with the reason."""
    return dict(s for p in (parts.calibration, parts.evaluation) if p for s in p.skipped)


def _evaluation(
    made: Quantization,
    parts: Parts,
    before: Session,
    after: Session,
    executor: Executor,
    batch: int,
    progress: Progress | None,
    metric: Metric | None,
) -> Evaluation:
    assert parts.evaluation is not None
    return evaluate(
        session_engine(before),
        {"int8": session_engine(after), "integers": integer_engine(executor, made.quantized)},
        told(parts.evaluation, "evaluating", progress),
        [name_of(v) for v in made.ground.source.outputs],
        batch=batch if takes_any_batch(made.ground.source) else 1,
        metric=metric,
    )
