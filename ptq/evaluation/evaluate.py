"""Runs several forms of one model side by side on the same samples and measures how they differ."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError, ModelError
from ptq.core.run_options import RunOptions
from ptq.data import Sample
from ptq.data.labels import require_class
from ptq.evaluation.drop import Drop, agreement_drop, error_drop, top1_drop
from ptq.evaluation.metrics import (
    Accuracy,
    AccuracyMeter,
    Fidelity,
    FidelityMeter,
    is_scores,
    numeric_output,
)
from ptq.evaluation.user_metric import Metric, metric_drop
from ptq.executor.executor import Executor
from ptq.model.failure import explain_failure
from ptq.model.graph import Graph
from ptq.model.node import Value, name_of, shape_of
from ptq.model.session import Session

Shape = tuple[int | None, ...]

Engine = Callable[[Mapping[str, NDArray[Any]]], list[NDArray[Any]]]
"""One form of the model: a feed to its outputs, in order."""

REFERENCE = "float"
_MAX_BATCH_BYTES = (
    2**21
)  # bytes of samples that run at once: integers of a convolution take some forty times as many
_SPEED_SECONDS, _SPEED_ROUNDS = 0.6, 200


@dataclass(frozen=True)
class FormMetrics:
    """One form of the model.

    Attributes:
        accuracy: Against labels; None where there are none.
        outputs: Fidelity to the float model by output; empty for the float model itself.
        drop: What it loses against float, with its interval; None for the float model itself.
    """

    accuracy: Accuracy | None
    outputs: Mapping[str, Fidelity]
    drop: Drop | None = None


@dataclass(frozen=True)
class Evaluation:
    """All forms on the same samples.

    Attributes:
        samples: Their number.
        head: The output that labels are compared with and that comes first in the report.
        forms: Measurements by name; the float model is ``float``.
        skipped: Bad samples that were left out, with the reason.
    """

    samples: int
    head: str
    forms: Mapping[str, FormMetrics]
    skipped: tuple[tuple[str, str], ...] = ()


def session_engine(session: Session) -> Engine:
    """A model in ONNX Runtime."""
    return lambda feed: [numeric_output(output) for output in session.run(feed)]


def reference_engine(reference: Graph, graph: Graph, run: RunOptions) -> Engine:
    """The float model that a graph is measured against: its outputs of the same names, else all in their order.

    Raises:
        ModelError: It has other inputs or outputs: the two are not the same model.
    """
    names, theirs = ([name_of(v) for v in g.outputs] for g in (graph, reference))
    if {*names} <= {*theirs}:
        theirs = names
    fed = {name_of(v) for v in reference.inputs} == {name_of(v) for v in graph.inputs}
    shapes = {name_of(v): shape_of(v) for v in reference.outputs}
    if (
        not fed
        or len(theirs) != len(names)
        or any(
            not _is_compatible_shape(shape_of(v), shapes[name])
            for v, name in zip(graph.outputs, theirs, strict=True)
        )
    ):
        raise ModelError(
            f"the model to compare with is another: from {_describe_signature(reference)}, where this is "
            f"from {_describe_signature(graph)}; give the float model that it was made of"
        )
    session = Session(reference, threads=run.threads)
    return lambda feed: [numeric_output(output) for output in session.run(feed, theirs)]


def _is_compatible_shape(one: Shape | None, other: Shape | None) -> bool:
    if one is None or other is None:
        return True
    return len(one) == len(other) and all(
        None in pair or pair[0] == pair[1] for pair in zip(one, other, strict=True)
    )


def _describe_signature(graph: Graph) -> str:
    def listed(values: Sequence[Value]) -> str:
        return ", ".join(
            f"{v.name}[{', '.join('?' if d is None else str(d) for d in shape_of(v) or ())}]"
            for v in values
        )

    return f"{listed(graph.inputs) or 'nothing'} to {listed(graph.outputs)}"


def integer_engine(executor: Executor, graph: Graph) -> Engine:
    """A quantized model in integers; the graph is what the executor has read."""
    names = executor.program.outputs

    def run(feed: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        with explain_failure(graph, feed):
            results = executor.run(feed)
        return [numeric_output(results[name]) for name in names]

    return run


def evaluate_engines(
    reference: Engine,
    candidates: Mapping[str, Engine],
    samples: Iterable[Sample],
    outputs: Sequence[str],
    *,
    batch: int = 1,
    metric: Metric | None = None,
) -> Evaluation:
    """Run the float model and others on the samples.

    Args:
        reference: The float model.
        candidates: Other forms of it by name, with the same inputs and outputs.
        samples: One feed each.
        outputs: Names of the outputs, in order.
        batch: How many samples of equal shape run at once, while they are 2 MB at most; 1 where the model fixes
            its batch.
        metric: What drops are counted in; where None, top-1 accuracy, agreement or the error. The samples
            and all outputs are then held in memory.

    Raises:
        DataError: There is no sample, or the model fails on one, or the metric, or a label is none of its classes.
        UsageError: The metric returns no number.
    """
    engines = {REFERENCE: reference, **candidates}
    meters = {name: _FormMeter(len(outputs)) for name in engines}
    scores = [True] * len(outputs)
    count, kept = 0, []
    for group in split_into_batches(samples, batch):
        results = {name: _run_batch(engine, group) for name, engine in engines.items()}
        for index, sample in enumerate(group):
            count += 1
            truth = results[REFERENCE][index]
            scores = [known and is_scores(t) for known, t in zip(scores, truth, strict=True)]
            if metric is None and sample.labels:
                sizes = {n: t.size for n, t in zip(outputs, truth, strict=True) if is_scores(t)}
                require_class(max(sample.labels), sizes, sample.name)
            for name, meter in meters.items():
                meter.add(truth, results[name][index], sample.labels)
                if metric is not None:
                    meter.kept_outputs.append(dict(zip(outputs, results[name][index], strict=True)))
            if metric is not None:
                kept.append(sample)
    if not count:
        raise DataError("there is no sample to evaluate on; give at least one")
    head = _find_class_output(
        outputs, scores, [meter.result() for meter in meters[REFERENCE].accuracy]
    )
    position = outputs.index(head)
    before = meters[REFERENCE]
    return Evaluation(
        samples=count,
        head=head,
        forms={
            name: FormMetrics(meter.accuracy[position].result(), {})
            if meter is before
            else FormMetrics(
                meter.accuracy[position].result(),
                dict(zip(outputs, (m.result() for m in meter.fidelity), strict=True)),
                meter.measure_drop(before, position)
                if metric is None
                else metric_drop(metric, before.kept_outputs, meter.kept_outputs, kept),
            )
            for name, meter in meters.items()
        },
    )


class _FormMeter:
    """What is measured of one form of the model, by output."""

    def __init__(self, outputs: int) -> None:
        self.accuracy = [AccuracyMeter() for _ in range(outputs)]
        self.fidelity = [FidelityMeter() for _ in range(outputs)]
        self.kept_outputs: list[dict[str, NDArray[Any]]] = []

    def add(
        self, truth: list[NDArray[Any]], output: list[NDArray[Any]], labels: tuple[int, ...]
    ) -> None:
        for position, (t, o) in enumerate(zip(truth, output, strict=True)):
            self.fidelity[position].add(t, o)
            if is_scores(t):
                self.accuracy[position].add(o, labels)

    def measure_drop(self, before: _FormMeter, position: int) -> Drop:
        """What is lost on one output."""
        fidelity = self.fidelity[position]
        was, now = before.accuracy[position].top1_correct, self.accuracy[position].top1_correct
        if now:
            return top1_drop(was, now)
        if len(fidelity.agreements) == len(fidelity.noise):
            return agreement_drop(fidelity.agreements)
        return error_drop(fidelity.signal, fidelity.noise)


def _find_class_output(
    outputs: Sequence[str], scores: Sequence[bool], accuracies: Sequence[Accuracy | None]
) -> str:
    """The output that holds the classes: of those that look like it, the one the float model gets right most."""
    ranked = sorted(
        range(len(outputs)),
        key=lambda i: (-(a.top1 if (a := accuracies[i]) is not None else 0.0), not scores[i], i),
    )
    return outputs[ranked[0]]


def split_into_batches(samples: Iterable[Sample], size: int) -> Iterator[list[Sample]]:
    """Runs of samples that can be stacked along a leading axis of 1, of 2 MB at most or one sample."""
    group: list[Sample] = []
    for sample in samples:
        if group and (len(group) >= _max_batch(size, group[0]) or not _can_stack(group[0], sample)):
            yield group
            group = []
        group.append(sample)
    if group:
        yield group


def _max_batch(size: int, sample: Sample) -> int:
    return min(
        size, _MAX_BATCH_BYTES // max(sum(array.nbytes for array in sample.feed.values()), 1)
    )


def _can_stack(one: Sample, other: Sample) -> bool:
    return all(
        array.ndim > 0 and array.shape[0] == 1 and array.shape == other.feed[name].shape
        for name, array in one.feed.items()
    )


def _run_batch(engine: Engine, group: Sequence[Sample]) -> list[list[NDArray[Any]]]:
    """Outputs by sample, then by output."""
    try:
        if len(group) == 1:
            return [engine(group[0].feed)]
        stacked = {
            name: np.concatenate([sample.feed[name] for sample in group]) for name in group[0].feed
        }
        results = engine(stacked)
    except DataError as error:
        raise DataError(f"{group[0].name}: {error}") from error
    if any(a.ndim == 0 or a.shape[0] != len(group) for a in results):
        return [engine(sample.feed) for sample in group]
    return [[array[i : i + 1] for array in results] for i in range(len(group))]


def speed_ratio(reference: Session, candidate: Session, feed: Mapping[str, NDArray[Any]]) -> float:
    """How many times faster the candidate runs a feed: the ratio of medians of interleaved runs."""
    times: tuple[list[float], list[float]] = ([], [])
    begin = time.perf_counter()
    while len(times[0]) < _SPEED_ROUNDS and (
        len(times[0]) < 3 or time.perf_counter() - begin < _SPEED_SECONDS
    ):
        for session, taken in zip((reference, candidate), times, strict=True):
            start = time.perf_counter()
            session.run(feed)
            taken.append(time.perf_counter() - start)
    return float(np.median(times[0]) / np.median(times[1]))
