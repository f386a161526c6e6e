"""Whether a task that is asked for fits the model, before the quantization: else hours could pass for nothing."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from ptq.core.errors import UsageError
from ptq.core.run_options import RunOptions
from ptq.data import Sample
from ptq.evaluation.runs.reference import run_sample
from ptq.evaluation.tasks.request import recognize_task
from ptq.evaluation.tasks.task import EXAMPLES, Example, TaskRequest
from ptq.model.graph import Graph
from ptq.model.node import get_name
from ptq.model.session.session import Session


def require_fitting_task(
    graph: Graph, samples: Iterable[Sample] | None, request: TaskRequest, run: RunOptions
) -> None:
    """Run the float model on the first sample that accuracy is measured on, or on as many as show the task.

    A task that is recognized always fits. Labelled boxes can need more samples: the evaluation waits for these.

    Args:
        graph: The float model.
        samples: The samples that accuracy is measured on; None for none.
        request: The task that is asked for, and labels that belong to one.
        run: How the job runs.

    Raises:
        UsageError: No output fits the task.
        ModelError: ONNX Runtime cannot load the model.
        DataError: A sample is unreadable or does not fit.
    """
    labels = request.labels
    chosen = request.name not in (None, "none") or labels.texts or labels.alphabet
    if samples is None or not chosen or labels.boxes.images:
        return
    session = Session.for_reference(graph, threads=run.threads)
    names = [get_name(v) for v in graph.outputs]
    examples: list[Example] = []
    refusal: UsageError | None = None
    for sample in islice(samples, EXAMPLES):
        outputs = dict(zip(names, run_sample(session, sample, None), strict=True))
        examples.append(Example(sample.feed, outputs, sample.name, sample.labels))
        try:
            recognize_task(request, examples, labelled=any(e.labels for e in examples))
        except UsageError as error:
            refusal = error
        else:
            return
    if refusal is not None:
        raise refusal
