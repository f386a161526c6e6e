"""Decisions that a quantized model changes, and the samples that hold most of them, on a few calibration samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ptq.core.errors import UsageError
from ptq.data import Sample
from ptq.evaluation.runs.model_outputs import ModelOutputs
from ptq.evaluation.runs.session_cache import SessionCache
from ptq.evaluation.tasks.request import TaskRequest, recognize_task
from ptq.evaluation.tasks.task import Example, Task
from ptq.model.node import get_name
from ptq.optimization.job import Job
from ptq.solver.quantizer import QuantizedModel

MAX_SAMPLES = 64
"""Samples that decisions are counted on where samples hold different numbers of them, like boxes: few images may hold
most. Never more than half of all samples.
"""
MIN_CHANGED = 2
"""A single changed decision is chance."""


@dataclass(frozen=True)
class CountedDecisions:
    """Decisions of the float model on a few samples.

    Attributes:
        task: What decides.
        samples: The samples.
        total: The number of decisions on each.
        changed: The share that the quantized model changes.
    """

    task: Task
    samples: Sequence[Sample]
    total: Sequence[float]
    changed: float

    @property
    def vary(self) -> bool:
        """Whether samples hold different numbers of decisions, like boxes."""
        return min(self.total) != max(self.total)

    def choose_samples(self, count: int) -> list[Sample] | None:
        """The samples with most decisions, in their order; None where all have equally many.

        An image without objects decides nothing, so errors on it say nothing of decisions.
        """
        if not self.vary:
            return None
        ranked = sorted(range(len(self.total)), key=lambda k: -self.total[k])
        return [self.samples[k] for k in sorted(ranked[:count])]


def count_decisions(
    job: Job, quantized: QuantizedModel, sessions: SessionCache
) -> CountedDecisions | None:
    """The decisions of the float model, and the share that the quantized model changes; None if it decides nothing.

    The task is that of the evaluation (`ptq.evaluation.tasks`): the one asked for, else the recognized one.

    Args:
        job: What is asked, and the float model.
        quantized: The quantized model.
        sessions: Opens the quantized model.

    Raises:
        ModelError: ONNX Runtime does not take a model.
        DataError: The model fails on a sample.
    """
    assert job.samples.calibration is not None
    calibration = job.samples.calibration
    samples = list(calibration.spread(job.effort.decision_samples))
    plain = ModelOutputs(job.prepared.graph, "result", job.run)
    integers = sessions.load_quantized(quantized.quantized_graph)
    reference = list(run_examples(job, plain, samples))
    try:
        task, _ = recognize_task(TaskRequest.from_graph(job.options.task, job.source), reference)
    except UsageError:  # the evaluation raises it
        return None
    if task is None:
        return None

    counts = [
        compare_examples(task, *pair)
        for pair in zip(reference, run_examples(job, integers, samples), strict=True)
    ]
    del reference
    more = min(MAX_SAMPLES, len(calibration) // 2)
    if more > len(samples) and len({number for _, number in counts}) > 1:
        samples = list(calibration.spread(more))
        pairs = zip(
            run_examples(job, plain, samples), run_examples(job, integers, samples), strict=True
        )
        counts = [compare_examples(task, *pair) for pair in pairs]
    changed, total = np.sum(counts, axis=0)
    share = float(changed / total) if changed >= MIN_CHANGED else 0.0
    return CountedDecisions(task, samples, [number for _, number in counts], share)


def run_examples(job: Job, model: ModelOutputs, samples: Sequence[Sample]) -> Iterator[Example]:
    """The samples with the outputs of a model, one after another."""
    names = [get_name(value) for value in job.source.outputs]
    for sample, outputs in zip(samples, model.run(samples), strict=True):
        yield Example(sample.feed, dict(zip(names, outputs, strict=True)))


def compare_examples(task: Task, one: Example, other: Example) -> tuple[float, float]:
    """Decisions that the other form changes on one sample, and those of the first one."""
    changed, number = task.compare(one.outputs, other.outputs, one.feed)[:2]
    return float(changed), float(number)
