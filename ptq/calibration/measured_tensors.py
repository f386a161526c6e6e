"""One pass of a model over samples from which the statistics of all its forms with scaled channels follow."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ptq.calibration.channel_spreads import Spreads
from ptq.calibration.collect import BatchBuffers
from ptq.core.run_options import DEFAULT_RUN, RunOptions
from ptq.data import Sample
from ptq.model.exposed_session import CollectedTensors, session_with_outputs
from ptq.model.graph import Graph
from ptq.model.node import name_of
from ptq.observers.calibration_file import Calibration
from ptq.observers.channel_sums import ChannelSums
from ptq.observers.channel_values import ChannelValues, to_stats, to_sums
from ptq.observers.stats import TensorStats

KEPT_VALUES = 2**21
"""About how many values are kept of all tensors and samples of a stage together, in addition to extremes."""
_BATCH = 2
"""Samples whose tensors are in memory together."""

Source = tuple[str, NDArray[np.float64] | None]
"""A measured tensor, and the factor by which each of its channels is multiplied; None for none."""


@dataclass(eq=False)
class MeasuredTensors:
    """Values of the tensors of a model, in folds of the samples.

    Attributes:
        folds: The values of each tensor in each fold.
        samples: The number of samples of each fold.
    """

    folds: Sequence[dict[str, ChannelValues]]
    samples: list[int]
    _known: dict[tuple[str, tuple[int, ...], bytes], tuple[TensorStats, ChannelSums]] = field(
        default_factory=dict
    )

    def count_values(self, samples: int) -> int:
        """About how many values so many samples have."""
        seen = sum(values.count for fold in self.folds for values in fold.values())
        return seen * samples // max(sum(self.samples), 1)

    def list_spreads(self, tensors: Collection[str]) -> list[Spreads]:
        """The spread of the channels of these tensors in each fold; without tensors that held NaN or Inf."""
        of_folds = [
            {n: v.spread for n, v in fold.items() if n in tensors and v.spread is not None}
            for fold in self.folds
        ]
        bad = {name for fold in of_folds for name, spread in fold.items() if not spread.is_finite}
        return [{n: spread for n, spread in fold.items() if n not in bad} for fold in of_folds]

    def to_calibration(
        self, folds: Sequence[int], tensors: Mapping[str, Source], summed: Mapping[str, Source]
    ) -> Calibration:
        """The statistics of a form of the model in some folds, estimated from some of the values.

        Equal statistics are the same object, with the ranges that were chosen from it.

        Args:
            folds: The numbers of the folds.
            tensors: The tensors of the form that need statistics.
            summed: The tensors of the form that need sums by channel.
        """
        counted = {name: self._find(source, folds)[0] for name, source in tensors.items()}
        sums = {name: self._find(source, folds)[1] for name, source in summed.items()}
        return Calibration("", sum(self.samples[k] for k in folds), counted, sums)

    def _find(self, source: Source, folds: Sequence[int]) -> tuple[TensorStats, ChannelSums]:
        name, factors = source
        if factors is not None and (factors == 1).all():
            factors = None
        key = name, tuple(folds), b"" if factors is None else factors.tobytes()
        if key not in self._known:
            parts = [self.folds[k][name] for k in folds]
            self._known[key] = to_stats(parts, factors), to_sums(parts, factors)
        return self._known[key]


def measure_tensors(
    graph: Graph,
    axes: Mapping[str, int | None],
    samples: Iterable[Sample],
    folds: Sequence[Collection[str]],
    count: int,
    *,
    into: MeasuredTensors,
    run: RunOptions = DEFAULT_RUN,
) -> None:
    """Run a model on samples and measure tensors.

    Args:
        graph: A prepared graph.
        axes: The channel axis of each float tensor; None for a tensor without channels.
        samples: The samples to run.
        folds: The names of each fold's samples.
        count: About how many samples are measured in all; the more, the fewer values of each are kept.
        into: What the samples are added to.
        run: How the job runs.

    Raises:
        DataError: A sample is unreadable, does not fit, or the model fails on it.
    """
    fold_of = {name: index for index, names in enumerate(folds) for name in names}
    computed = [name for name in axes if name not in {name_of(v) for v in graph.inputs}]
    session = session_with_outputs(graph, CollectedTensors(computed), threads=run.threads)
    buffers, remaining, distance = BatchBuffers(session, list(axes), _BATCH), iter(samples), 0
    while group := list(islice(remaining, _BATCH)):
        tensors = buffers.run(group)
        if not distance:
            size = sum(arrays[0].size for arrays in tensors.values())
            distance = -(-size * count // KEPT_VALUES)
        for place, sample in enumerate(group):
            index = fold_of[sample.name]
            into.samples[index] += 1
            for name, axis in axes.items():
                array = tensors[name][place].astype(np.float32, copy=False)
                into.folds[index].setdefault(name, ChannelValues(axis)).add(array, distance)
