"""Is it for overflow alone that nothing can be quantized, and on which sample does the float model overflow?

A tensor of NaN or +inf has no range. Where that leaves a model without integers, and its outputs without numbers, the
samples are at fault, or the model, and neither is mended by handing back the float model. What a model itself takes
away again (a row of attention masked whole is NaN, then 0) is no overflow, and -inf is what masks are made of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ptq.core.errors import DataError
from ptq.core.run_options import DEFAULT_RUN, RunOptions
from ptq.core.targets import Target
from ptq.data import Sample
from ptq.model.exposed_session import CollectedTensors, session_with_outputs
from ptq.model.graph import Graph
from ptq.model.node import name_of
from ptq.observers.stats import TensorStats
from ptq.solver.partition.eligibility import assign_precision


def refuse_overflow(
    graph: Graph,
    stats: Mapping[str, TensorStats],
    target: Target,
    floats: Mapping[str, str],
    samples: Iterable[Sample],
    *,
    run: RunOptions = DEFAULT_RUN,
) -> None:
    """Make sure that a model of which nothing was quantized is not one that overflows on its samples.

    Args:
        graph: The prepared graph.
        stats: Statistics by tensor.
        target: What the model is quantized for.
        floats: Nodes, or operators, that were to stay float in any case.
        samples: Those that were counted, as far as they are at hand.
        run: How the job runs.

    Raises:
        DataError: It is; the text names the first tensor and the first sample.
    """
    overflown = [
        name_of(value)
        for node in graph.nodes
        for value in node.outputs
        if (seen := stats.get(value.name or "")) is not None and seen.nan + seen.pos_inf
    ]
    if not overflown or not assign_precision(graph, target, floats).quantized_nodes:
        return
    found = _first_overflowing_sample(graph, overflown[0], samples, run)
    if found is not None:
        raise DataError(
            f"{found}: the float model overflows: {overflown[0]} holds NaN or Inf there, as do its outputs, "
            "and nothing is left to quantize; leave such samples out, or scale them as in training"
        )


def _first_overflowing_sample(
    graph: Graph, tensor: str, samples: Iterable[Sample], run: RunOptions
) -> str | None:
    """The name of the first sample on which a tensor and an output are NaN or +inf."""
    session = session_with_outputs(graph, CollectedTensors([tensor]), threads=run.threads)
    outputs = [name_of(value) for value in graph.outputs]
    for sample in samples:
        first, *others = session.run(sample.feed, [tensor, *outputs])
        if _has_overflow(first) and any(map(_has_overflow, others)):
            return sample.name
    return None


def _has_overflow(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.kind == "f" and not np.all(array < np.inf)
