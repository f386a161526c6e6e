"""The share of decisions that a quantized model changes, on a few calibration samples."""

from __future__ import annotations

import numpy as np

from ptq.core.errors import UsageError
from ptq.evaluation.tasks.request import TaskRequest, recognize_task
from ptq.evaluation.tasks.task import Example
from ptq.model.graph import Graph
from ptq.model.node import name_of
from ptq.model.session import Session
from ptq.optimization.pipeline import Job
from ptq.solver.quantizer import QuantizedModel

SAMPLES = 16
MIN_CHANGED = 2
"""A single changed decision is chance."""


def share_of_changed_decisions(job: Job, made: QuantizedModel) -> float | None:
    """The share of decisions that the quantized model changes; None if the model decides nothing.

    The task is that of the evaluation (`ptq.evaluation.tasks`): the one asked for, else the recognized one.

    Raises:
        ModelError: ONNX Runtime does not take a model.
        DataError: The model fails on a sample.
    """
    assert job.samples.calibration is not None
    samples = list(job.samples.calibration.spread(SAMPLES))
    names = [name_of(value) for value in job.source.outputs]

    def run(graph: Graph) -> list[Example]:
        session = Session(graph, threads=job.run.threads)
        return [
            Example(s.feed, dict(zip(names, session.run(s.feed), strict=True))) for s in samples
        ]

    reference = run(job.prepared.graph)
    try:
        task, _ = recognize_task(TaskRequest.from_graph(job.options.task, job.source), reference)
    except UsageError:  # the evaluation raises it
        return None
    if task is None:
        return None
    others = run(made.quantized_graph)
    counts = [
        task.compare(one.outputs, other.outputs, one.feed)[:2]
        for one, other in zip(reference, others, strict=True)
    ]
    changed, count = np.sum(counts, axis=0)
    return float(changed / count) if changed >= MIN_CHANGED else 0.0
