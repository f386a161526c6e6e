"""Extremes and mean squares of every channel of a model's tensors, collected on samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ptq.core.errors import DataError
from ptq.core.run_options import DEFAULT_RUN, RunOptions
from ptq.data import Sample
from ptq.model.exposed_session import CollectedTensors, session_with_outputs
from ptq.model.graph import Graph
from ptq.model.node import name_of
from ptq.observers.channel_spread import ChannelSpread


def collect_channel_spreads(
    graph: Graph, axes: Mapping[str, int], samples: Iterable[Sample], run: RunOptions = DEFAULT_RUN
) -> dict[str, ChannelSpread]:
    """The spread of the channels of each tensor; tensors that were empty or held NaN or Inf are left out.

    Args:
        graph: A prepared graph.
        axes: The channel axis of each float tensor to observe.
        samples: The samples to run.
        run: How the job runs.

    Raises:
        DataError: A sample is unreadable, does not fit, or the model fails on it.
    """
    inputs = {name_of(v) for v in graph.inputs}
    computed = [name for name in axes if name not in inputs]
    session = session_with_outputs(graph, CollectedTensors(computed), threads=run.threads)
    spreads: dict[str, ChannelSpread] = {}
    for sample in samples:
        try:
            arrays = dict(zip(computed, session.run(sample.feed, computed), strict=True))
        except DataError as error:
            raise DataError(f"{sample.name}: {error}") from error
        for name, axis in axes.items():
            array = arrays.pop(name) if name in arrays else sample.feed[name]
            if array.size:
                spread = ChannelSpread.from_array(array.astype(np.float32, copy=False), axis)
                spreads[name] = spreads[name] | spread if name in spreads else spread
    return {name: spread for name, spread in spreads.items() if spread.is_finite}
