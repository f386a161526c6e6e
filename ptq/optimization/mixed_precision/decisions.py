"""Decisions that a quantized model changes, and the samples that hold most of them, on a few calibration samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ptq.core.errors import UsageError
from ptq.data import Sample
from ptq.evaluation.model_outputs import ModelOutputs
from ptq.evaluation.tasks.request import TaskRequest, recognize_task
from ptq.evaluation.tasks.task import Example
from ptq.model.node import name_of
from ptq.optimization.pipeline import Job
from ptq.solver.quantizer import QuantizedModel

SAMPLES, MOST_SAMPLES = 16, 64
"""Samples that decisions are counted on; the second where samples hold different numbers of them, like boxes: few
images may hold most. Never more than half of all samples.
"""
MIN_CHANGED = 2
"""A single changed decision is chance."""


@dataclass(frozen=True)
class CountedDecisions:
    """Decisions of the float model on a few samples.

    Attributes:
        samples: The samples.
        made: The number of decisions on each.
        changed: The share that the quantized model changes.
    """

    samples: Sequence[Sample]
    made: Sequence[float]
    changed: float

    def choose_samples(self, count: int) -> list[Sample] | None:
        """The samples with most decisions, in their order; None where all have equally many.

        An image without objects decides nothing, so errors on it say nothing of decisions.
        """
        if min(self.made) == max(self.made):
            return None
        ranked = sorted(range(len(self.made)), key=lambda k: -self.made[k])
        return [self.samples[k] for k in sorted(ranked[:count])]


def count_decisions(job: Job, made: QuantizedModel) -> CountedDecisions | None:
    """The decisions of the float model, and the share that the quantized model changes; None if it decides nothing.

    The task is that of the evaluation (`ptq.evaluation.tasks`): the one asked for, else the recognized one.

    Raises:
        ModelError: ONNX Runtime does not take a model.
        DataError: The model fails on a sample.
    """
    assert job.samples.calibration is not None
    calibration = job.samples.calibration
    samples = list(calibration.spread(SAMPLES))
    names = [name_of(value) for value in job.source.outputs]
    plain, quantized = (
        ModelOutputs(graph, "result", job.run)
        for graph in (job.prepared.graph, made.quantized_graph)
    )

    def run(model: ModelOutputs, samples: Sequence[Sample]) -> Iterator[Example]:
        for sample, outputs in zip(samples, model.run(samples), strict=True):
            yield Example(sample.feed, dict(zip(names, outputs, strict=True)))

    reference = list(run(plain, samples))
    try:
        task, _ = recognize_task(TaskRequest.from_graph(job.options.task, job.source), reference)
    except UsageError:  # the evaluation raises it
        return None
    if task is None:
        return None

    def count(one: Example, other: Example) -> tuple[float, float]:
        changed, number = task.compare(one.outputs, other.outputs, one.feed)[:2]
        return float(changed), float(number)

    counts = list(map(count, reference, run(quantized, samples)))
    del reference
    more = min(MOST_SAMPLES, len(calibration) // 2)
    if more > SAMPLES and len({number for _, number in counts}) > 1:
        samples = list(calibration.spread(more))
        counts = list(map(count, run(plain, samples), run(quantized, samples)))
    changed, total = np.sum(counts, axis=0)
    share = float(changed / total) if changed >= MIN_CHANGED else 0.0
    return CountedDecisions(samples, [number for _, number in counts], share)
