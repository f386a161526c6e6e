"""Extremes and mean squares of every channel of a model's tensors, collected on samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ptq.core.run_options import RunOptions
from ptq.data import Sample
from ptq.data.sample_source import name_sample
from ptq.model.graph import Graph
from ptq.model.node import get_name
from ptq.model.session.exposed_session import CollectedTensors, open_session_with_outputs
from ptq.observers.channel_spread import ChannelSpread

Spreads = Mapping[str, ChannelSpread]
"""The spread of the channels of each tensor."""


class SpreadCollector:
    """A loaded model that measures the spread of the channels of some of its tensors."""

    def __init__(self, graph: Graph, axes: Mapping[str, int], run: RunOptions) -> None:
        """Load the model.

        Args:
            graph: A prepared graph.
            axes: The channel axis of each float tensor to observe.
            run: How the job runs.
        """
        inputs = {get_name(v) for v in graph.inputs}
        self._axes, self._computed = axes, [name for name in axes if name not in inputs]
        wanted = CollectedTensors(self._computed)
        self._session = open_session_with_outputs(graph, wanted, threads=run.threads)

    def collect(self, samples: Iterable[Sample]) -> Spreads:
        """The spread of the channels of each tensor; tensors that were empty or held NaN or Inf are left out.

        Raises:
            DataError: A sample is unreadable, does not fit, or the model fails on it.
        """
        return merge_spreads(map(self._observe, samples))

    def _observe(self, sample: Sample) -> Spreads:
        """The spreads of the tensors that are not empty."""
        with name_sample(sample.name):
            found = self._session.run(sample.feed, self._computed)
        arrays, spreads = dict(zip(self._computed, found, strict=True)), {}
        for name, axis in self._axes.items():
            array = arrays.pop(name) if name in arrays else sample.feed[name]
            if array.size:
                spreads[name] = ChannelSpread.from_array(array.astype(np.float32, copy=False), axis)
        return spreads


def merge_spreads(parts: Iterable[Spreads]) -> Spreads:
    """The spreads over all parts; tensors that held NaN or Inf are left out."""
    merged: Spreads = {}
    for part in parts:
        merged = _merge(merged, part)
    return {name: spread for name, spread in merged.items() if spread.is_finite}


def _merge(one: Spreads, other: Spreads) -> Spreads:
    both = {name: one[name] | other[name] for name in one if name in other}
    return {**one, **other, **both}
