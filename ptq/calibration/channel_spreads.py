"""Extremes and mean squares of every channel of a model's tensors, collected on samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from ptq.core.errors import DataError
from ptq.core.run_options import DEFAULT_RUN, RunOptions
from ptq.data import Sample
from ptq.model.exposed_session import CollectedTensors, session_with_outputs
from ptq.model.graph import Graph
from ptq.model.node import name_of
from ptq.observers.channel_spread import ChannelSpread

Spreads = Mapping[str, ChannelSpread]
"""The spread of the channels of each tensor."""


def collect_channel_spreads(
    graph: Graph, axes: Mapping[str, int], samples: Iterable[Sample], run: RunOptions = DEFAULT_RUN
) -> Spreads:
    """The spread of the channels of each tensor; tensors that were empty or held NaN or Inf are left out.

    Args:
        graph: A prepared graph.
        axes: The channel axis of each float tensor to observe.
        samples: The samples to run.
        run: How the job runs.

    Raises:
        DataError: A sample is unreadable, does not fit, or the model fails on it.
    """
    return merge_spreads([spreads for _, spreads in _observe(graph, axes, samples, run)])


def merge_spreads(parts: Iterable[Spreads]) -> Spreads:
    """The spreads over all parts; tensors that held NaN or Inf are left out."""
    merged: Spreads = {}
    for part in parts:
        merged = _merge(merged, part)
    return {name: spread for name, spread in merged.items() if spread.is_finite}


def _merge(one: Spreads, other: Spreads) -> Spreads:
    both = {name: one[name] | other[name] for name in one if name in other}
    return {**one, **other, **both}


def _observe(
    graph: Graph, axes: Mapping[str, int], samples: Iterable[Sample], run: RunOptions
) -> Iterator[tuple[Sample, Spreads]]:
    """The spreads of the tensors that are not empty, sample by sample."""
    inputs = {name_of(v) for v in graph.inputs}
    computed = [name for name in axes if name not in inputs]
    session = session_with_outputs(graph, CollectedTensors(computed), threads=run.threads)
    for sample in samples:
        try:
            arrays = dict(zip(computed, session.run(sample.feed, computed), strict=True))
        except DataError as error:
            raise DataError(f"{sample.name}: {error}") from error
        spreads = {}
        for name, axis in axes.items():
            array = arrays.pop(name) if name in arrays else sample.feed[name]
            if array.size:
                spreads[name] = ChannelSpread.from_array(array.astype(np.float32, copy=False), axis)
        yield sample, spreads
