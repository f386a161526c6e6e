"""Is it for overflow alone that nothing can be quantized, and on which sample does the float model overflow?

A tensor of NaN or +inf has no range. Where that leaves a model without integers the samples are at fault, or the
model, and neither is mended by handing back the float model. (-inf is what masks are made of.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ptq.calibrate import Wanted, exposing
from ptq.data import Sample
from ptq.eligible import eligible
from ptq.errors import DataError
from ptq.graph import Graph
from ptq.nodes import name_of
from ptq.observers.stats import TensorStats
from ptq.targets import Target


def refuse_overflow(
    graph: Graph,
    stats: Mapping[str, TensorStats],
    target: Target,
    floats: Mapping[str, str],
    samples: Iterable[Sample],
    *,
    threads: int = 0,
) -> None:
    """Make sure that a model of which nothing was quantized is not one that overflows on its samples.

    Args:
        graph: The prepared graph.
        stats: Statistics by tensor.
        target: What the model is quantized for.
        floats: Nodes, or operators, that were to stay float in any case.
        samples: Those that were counted, as far as they are at hand.
        threads: Threads for one operator; 0 is one a core.

    Raises:
        DataError: It is; the text names the first tensor, and the first sample.
    """
    overflown = [
        name_of(value)
        for node in graph.nodes
        for value in node.outputs
        if (seen := stats.get(value.name or "")) is not None and seen.nan + seen.pos_inf
    ]
    if not overflown or not eligible(graph, target, floats).integers:
        return
    tensor = overflown[0]
    sample = _first(graph, tensor, samples, threads)
    raise DataError(
        f"{sample}: the float model overflows: {tensor} holds NaN or Inf there, and nothing is left to "
        "quantize; leave such samples out, or scale them as in training"
    )


def _first(graph: Graph, tensor: str, samples: Iterable[Sample], threads: int) -> str:
    """The name of the first sample on which a tensor is NaN or +inf."""
    session = exposing(graph, Wanted([tensor]), threads=threads)
    for sample in samples:
        (array,) = session.run(sample.feed, [tensor])
        if not np.all(array < np.inf):
            return sample.name
    return "a sample of those that the statistics are of"
