"""Measures a quantized model beside the float one, and gathers all there is to say in a Report."""

from __future__ import annotations

from dataclasses import dataclass

from ptq.evaluate import Evaluation, evaluate, integer_engine, session_engine, speed_ratio
from ptq.execute import Executor
from ptq.feeding import Parts, Progress, takes_any_batch, told
from ptq.graph import Graph
from ptq.nodes import name_of
from ptq.observers.store import Calibration
from ptq.plan import Plan
from ptq.report import Report
from ptq.rewrite.prepare import Prepared
from ptq.rows import node_rows, tensor_rows
from ptq.session import Session, versions


@dataclass(frozen=True, eq=False)
class Quantization:
    """All that one quantization made.

    Attributes:
        name: What to call the model.
        source: The float model as given.
        prepared: The same, prepared.
        plan: What was decided.
        quantized: The quantized model.
        form: ``qdq`` or ``qoperator``.
        method: Name of the range method.
        calibration: The statistics.
    """

    name: str
    source: Graph
    prepared: Prepared
    plan: Plan
    quantized: Graph
    form: str
    method: str
    calibration: Calibration


def assess(
    made: Quantization,
    parts: Parts,
    *,
    arithmetic: str,
    batch: int,
    threads: int,
    progress: Progress | None,
) -> Report:
    """Run float, int8 and integers on the evaluation samples, if there are any, and report.

    Args:
        made: What to report on.
        parts: Samples.
        arithmetic: What the integers are computed in.
        batch: Samples that run at once.
        threads: Threads for one operator; 0 is one a core.
        progress: Told how far it is.

    Raises:
        ModelError: ONNX Runtime does not take a model, or the arithmetic cannot express a node.
        DataError: A sample is unreadable or does not fit.
    """
    executor = Executor(made.quantized, arithmetic)
    evaluation, speed = None, None
    skipped = _skipped(parts)  # each reading of samples begins the list anew
    if parts.evaluation is not None:
        before = Session(made.source, threads=threads)
        after = Session(made.quantized, threads=threads)
        evaluation = _evaluation(made, parts, before, after, executor, batch, progress)
        skipped |= _skipped(parts)
        speed = speed_ratio(before, after, next(iter(parts.evaluation)).feed)
    used = parts.calibration or parts.evaluation
    applied = used.preprocess if used is not None else None
    return Report(
        model=made.name,
        target=made.plan.target,
        method=made.method,
        form=made.form,
        arithmetic=arithmetic,
        changes=made.prepared.changes,
        preprocessing=applied.describe() if applied is not None else {},
        calibration_samples=made.calibration.samples,
        evaluated_on=parts.described,
        evaluation=evaluation,
        float_bytes=len(made.source.to_bytes()),
        int8_bytes=len(made.quantized.to_bytes()),
        speed=speed,
        islands=executor.islands,
        tensors=tensor_rows(made.prepared.graph, made.plan, made.calibration.tensors),
        nodes=node_rows(made.prepared.graph, made.plan),
        skipped=tuple(skipped.items()),
        versions=versions(),
    )


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
) -> Evaluation:
    assert parts.evaluation is not None
    return evaluate(
        session_engine(before),
        {"int8": session_engine(after), "integers": integer_engine(executor)},
        told(parts.evaluation, "evaluating", progress),
        [name_of(v) for v in made.source.outputs],
        batch=batch if takes_any_batch(made.source) else 1,
    )
