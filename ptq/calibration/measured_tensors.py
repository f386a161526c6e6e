"""One pass of a model over samples from which the statistics of all its forms with scaled channels follow."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.calibration.channel_spreads import Spreads
from ptq.calibration.collect import BatchBuffers
from ptq.core.run_options import RunOptions, SizedIterable, untrack_items
from ptq.data import Sample, Samples
from ptq.data.workers.sample_map import SampleMap
from ptq.data.workers.sample_parts import Part
from ptq.model.graph import Graph
from ptq.model.node import get_name
from ptq.model.session.exposed_session import CollectedTensors, open_session_with_outputs
from ptq.observers.calibration_file import Calibration
from ptq.observers.channel_sums import ChannelSums
from ptq.observers.channel_values import ChannelValues, SampleValues, take_values, to_stats, to_sums
from ptq.observers.stats import TensorStats

KEPT_VALUES = 2**21
"""About how many values are kept of all tensors and samples of a stage together, in addition to extremes."""
_BATCH = 2
"""Samples whose tensors each thread has in memory together."""
_TIMED_SAMPLES = 8
"""Samples that tell how long one takes: the first ones take longer."""

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
    samples: SizedIterable[Sample],
    folds: Sequence[Collection[str]],
    count: int,
    *,
    into: MeasuredTensors,
    run: RunOptions,
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
    job = _MeasureJob(graph, axes, count, run.for_job())
    opened, items = job.open(), untrack_items(samples)
    arguments: list[int] = []
    if run.pool is not None and isinstance(items, Samples):
        arguments = [opened.find_distance(items)] * len(items)
    start, measured = time.perf_counter(), SampleMap(job, run, opened, thread_seconds=math.inf)
    parts = measured.map(samples, most=_BATCH, arguments=arguments)
    for name, tensors in itertools.chain.from_iterable(parts):
        index = fold_of[name]
        into.samples[index] += 1
        for tensor, values in tensors.items():
            known = into.folds[index].setdefault(tensor, ChannelValues(axes[tensor]))
            if values is not None:
                known.add(values)
    seconds, count = time.perf_counter() - start, len(fold_of)
    if run.pool is not None and count >= _TIMED_SAMPLES:
        run.pool.prepare(seconds * run.jobs_at_once / count, 0)


_Measured = list[tuple[str, dict[str, SampleValues | None]]]
"""The name of each sample, with the values of each tensor."""


@dataclass(frozen=True, eq=False)
class _MeasureJob:
    graph: Graph
    axes: Mapping[str, int | None]
    count: int
    run: RunOptions

    def open(self) -> _Measurement:
        return _Measurement(self)


class _Measurement:
    """A model that is loaded to measure its tensors; each thread has memory of its own."""

    def __init__(self, job: _MeasureJob) -> None:
        self._axes, self._count, self._distance = job.axes, job.count, 0
        computed = [n for n in job.axes if n not in {get_name(v) for v in job.graph.inputs}]
        wanted = CollectedTensors(computed)
        self._session = open_session_with_outputs(job.graph, wanted, threads=job.run.threads)
        self._unused: list[BatchBuffers] = []

    def find_distance(self, samples: Iterable[Sample]) -> int:
        """Of how many values one is kept, by the size of the tensors on the first sample."""
        with self._borrow_buffers() as buffers:
            for sample in samples:
                return self._choose_distance(buffers.run([sample]))
        return 1

    def __call__(self, part: Part) -> _Measured:
        found: _Measured = []
        remaining = iter(part.samples)
        with self._borrow_buffers() as buffers:
            while group := list(islice(remaining, _BATCH)):
                tensors = buffers.run(group)
                if part.arguments:
                    distance = part.arguments[0]
                else:
                    distance = self._distance = self._distance or self._choose_distance(tensors)
                for place, sample in enumerate(group):
                    arrays = {
                        name: tensors[name][place].astype(np.float32, copy=False)
                        for name in self._axes
                    }
                    values = {
                        name: take_values(array, self._axes[name], distance)
                        for name, array in arrays.items()
                    }
                    found.append((sample.name, values))
        return found

    @contextmanager
    def _borrow_buffers(self) -> Iterator[BatchBuffers]:
        """Memory that no other thread uses meanwhile."""
        try:
            buffers = self._unused.pop()
        except IndexError:
            buffers = BatchBuffers(self._session, list(self._axes), _BATCH)
        yield buffers
        self._unused.append(buffers)

    def _choose_distance(self, tensors: Mapping[str, NDArray[Any] | Sequence[NDArray[Any]]]) -> int:
        size = sum(arrays[0].size for arrays in tensors.values())
        return -(-size * self._count // KEPT_VALUES)
