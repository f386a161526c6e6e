"""Overflow of the float model on a sample, as the reason why nothing can be quantized.

A tensor with NaN or +inf has no range. If this leaves a model without integers and its outputs without numbers, the
samples or the model are wrong. Returning the float model would hide that, so it is an error.

Two cases are not overflow: values that the model itself removes again (a fully masked attention row is NaN, then 0),
and -inf, which masks contain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ptq.core.errors import DataError
from ptq.core.run_options import RunOptions
from ptq.core.target import Target
from ptq.data import Sample
from ptq.model.graph import Graph
from ptq.model.node import get_name
from ptq.model.session.exposed_session import CollectedTensors, open_session_with_outputs
from ptq.observers.stats import TensorStats
from ptq.solver.partition.eligibility import assign_precision


def refuse_overflow(
    graph: Graph,
    stats: Mapping[str, TensorStats],
    target: Target,
    float_nodes: Mapping[str, str],
    samples: Iterable[Sample],
    *,
    run: RunOptions,
) -> None:
    """Raise an error if nothing was quantized because the float model overflows on a sample.

    Args:
        graph: The prepared graph.
        stats: Statistics by tensor.
        target: Target of the quantization.
        float_nodes: Nodes or operators that stay in float in any case, each with its reason.
        samples: The calibration samples that are available.
        run: How the job runs.

    Raises:
        DataError: The model overflows; the message names the first tensor and the first sample.
    """
    overflowing = [
        get_name(value)
        for node in graph.nodes
        for value in node.outputs
        if (observed := stats.get(value.name or "")) is not None and observed.nan + observed.pos_inf
    ]
    if not overflowing or not assign_precision(graph, target, float_nodes).quantized_nodes:
        return
    name = _find_overflowing_sample(graph, overflowing[0], samples, run)
    if name is not None:
        raise DataError(
            f"{name}: the float model overflows (tensor {overflowing[0]} is NaN or Inf), so nothing can be "
            "quantized. Remove the sample or scale it as in training"
        )


def _find_overflowing_sample(
    graph: Graph, tensor: str, samples: Iterable[Sample], run: RunOptions
) -> str | None:
    """Name of the first sample on which a tensor and an output contain NaN or +inf; None if there is none."""
    session = open_session_with_outputs(graph, CollectedTensors([tensor]), threads=run.threads)
    outputs = [get_name(value) for value in graph.outputs]
    for sample in samples:
        first, *others = session.run(sample.feed, [tensor, *outputs])
        if _has_overflow(first) and any(map(_has_overflow, others)):
            return sample.name
    return None


def _has_overflow(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.kind == "f" and not np.all(array < np.inf)
