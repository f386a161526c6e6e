"""Runs the float model on calibration samples and counts what every tensor holds.

The model runs one sample at a time: ONNX Runtime's floats may depend on a sample's neighbours in a batch, the
counts must not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError, StatsError
from ptq.core.run_options import DEFAULT_RUN, RunOptions
from ptq.data import Sample
from ptq.model.exposed_session import CollectedTensors, session_with_outputs
from ptq.model.graph import Graph
from ptq.model.session import Session
from ptq.observers.calibration_file import Calibration
from ptq.observers.channel_sums import ChannelSums
from ptq.observers.stats import TensorStats

COUNTING_THREADS = 2
"""One thread counts one tensor; more threads would wait for each other's Python."""
_NO_SAMPLES = "there is no calibration sample; give at least one"


class CheckpointProtocol(Protocol):
    """Keeps a calibration that may be interrupted; see `ptq.calibration.checkpoint`."""

    def restore(self, samples: Iterator[Sample]) -> Calibration | None:
        """The statistics so far, their samples taken off the iterator; None where there are none."""
        ...

    def record_samples(self, group: Sequence[Sample], state: Callable[[], Calibration]) -> None:
        """Note that samples have been counted, and save where it is time to."""
        ...

    def save(self, state: Calibration) -> None:
        """Save the statistics of all samples noted."""
        ...


def observe(
    graph: Graph,
    samples: Iterable[Sample],
    wanted: CollectedTensors,
    *,
    run: RunOptions = DEFAULT_RUN,
    keeper: CheckpointProtocol | None = None,
) -> Calibration:
    """Observe tensors over all samples.

    Args:
        graph: A prepared graph.
        samples: What to run it on.
        wanted: What to observe.
        run: How the job runs.
        keeper: Where to go on from, and what to tell of every group of samples.

    Raises:
        DataError: There is no sample, or the model fails on one; the text names it.
        StatsError: What the keeper has belongs to something else.
    """
    digest, counted, remaining = graph.digest(), empty_statistics(wanted), iter(samples)

    def state() -> Calibration:
        return Calibration(digest, counted.samples, counted.tensors, counted.channels)

    if keeper is not None and (so_far := keeper.restore(remaining)) is not None:
        counted = resume_statistics(so_far, wanted)
    session = session_with_outputs(graph, wanted, threads=run.threads)
    after = None if keeper is None else lambda group: keeper.record_samples(group, state)
    count_values(session, remaining, wanted, counted, run.calibration_batch, after)
    if keeper is not None:
        keeper.save(state())
    return state()


def observe_splits(
    graph: Graph,
    samples: Iterable[Sample],
    wanted: CollectedTensors,
    parts: Sequence[Collection[str]],
    *,
    run: RunOptions = DEFAULT_RUN,
) -> list[Calibration]:
    """Observe tensors over several parts of the samples, each by itself, in one pass.

    Args:
        graph: A prepared graph.
        samples: What to run it on.
        wanted: What to observe.
        parts: The names of each part's samples.
        run: How the job runs.

    Raises:
        DataError: There is no sample, or the model fails on one; the text names it.
    """
    digest, session = graph.digest(), session_with_outputs(graph, wanted, threads=run.threads)
    seen = [empty_statistics(wanted) for _ in parts]
    part = {name: counted for names, counted in zip(parts, seen, strict=True) for name in names}
    batch = max(1, run.calibration_batch)
    groups = _group_by_split(samples, part, batch)
    _count_groups(BatchBuffers(session, wanted.names, batch), groups)
    if not any(counted.samples for counted in seen):
        raise DataError(_NO_SAMPLES)
    return [Calibration(digest, c.samples, c.tensors, c.channels) for c in seen]


def _group_by_split(
    samples: Iterable[Sample], part: Mapping[str, RunningStatistics], size: int
) -> Iterator[tuple[RunningStatistics, list[Sample]]]:
    """The samples in groups of so many, and of fewer at last, each of one part."""
    waiting: dict[int, list[Sample]] = {}
    for sample in samples:
        counted = part[sample.name]
        group = waiting.setdefault(id(counted), [])
        group.append(sample)
        if len(group) == size:
            yield counted, waiting.pop(id(counted))
    yield from ((part[group[0].name], group) for group in waiting.values())


@dataclass
class RunningStatistics:
    """Statistics while they are being gathered."""

    tensors: dict[str, TensorStats]
    channels: dict[str, ChannelSums]
    samples: int = 0

    def add(self, name: str, arrays: NDArray[Any] | Sequence[NDArray[Any]]) -> None:
        """Take in one tensor of several samples; different tensors may come from different threads.

        Args:
            name: The tensor.
            arrays: One array a sample; stacked in one array, they are counted at one go.
        """
        if name in self.tensors:
            for part in [arrays] if isinstance(arrays, np.ndarray) else arrays:
                self.tensors[name].update(part)
        if name in self.channels:
            for stack in [arrays] if isinstance(arrays, np.ndarray) else [a[None] for a in arrays]:
                self.channels[name].update_batch(stack)


def empty_statistics(wanted: CollectedTensors) -> RunningStatistics:
    """Statistics of no sample."""
    return RunningStatistics(
        {name: TensorStats() for name in wanted.tensors},
        {name: ChannelSums(axis) for name, axis in wanted.channel_axes.items()},
    )


def resume_statistics(state: Calibration, wanted: CollectedTensors) -> RunningStatistics:
    """Statistics to go on from.

    Raises:
        StatsError: They are of other tensors than are wanted.
    """
    if {*state.tensors} != {*wanted.tensors} or {*state.channels} != {*wanted.channel_axes}:
        raise StatsError("the checkpoint was made by another version of ptq; delete it")
    return RunningStatistics(dict(state.tensors), dict(state.channels), state.samples)


def count_values(
    session: Session,
    samples: Iterable[Sample],
    wanted: CollectedTensors,
    counted: RunningStatistics,
    batch: int,
    after: Callable[[Sequence[Sample]], None] | None = None,
) -> None:
    """Run the model over the samples, one at a time, and count.

    Args:
        session: The model with the wanted tensors among its outputs.
        samples: What to run it on.
        wanted: What to observe.
        counted: What to add to.
        batch: How many samples are counted together.
        after: Told of each group of samples once it is counted.

    Raises:
        DataError: There is no sample, or the model fails on one; the text names it.
    """
    remaining, memory = iter(samples), BatchBuffers(session, wanted.names, max(1, batch))
    groups = iter(lambda: list(islice(remaining, memory.batch)), [])
    _count_groups(memory, ((counted, group) for group in groups), after)
    if not counted.samples:
        raise DataError(_NO_SAMPLES)


def _count_groups(
    memory: BatchBuffers,
    groups: Iterable[tuple[RunningStatistics, Sequence[Sample]]],
    after: Callable[[Sequence[Sample]], None] | None = None,
) -> None:
    """Run the model over groups of samples and add each to its statistics."""
    with ThreadPoolExecutor(COUNTING_THREADS) as pool:
        for counted, group in groups:
            held = memory.run(group)
            largest_first = sorted(held, key=lambda name: (-held[name][0].size, name))
            for future in [pool.submit(counted.add, name, held[name]) for name in largest_first]:
                future.result()
            counted.samples += len(group)
            if after is not None:
                after(group)


class BatchBuffers:
    """Where the tensors of a batch of samples lie: batch after batch the same place, stacked."""

    def __init__(self, session: Session, names: Sequence[str], batch: int) -> None:
        self.batch = batch
        self._session = session
        self._fed = [name for name in names if name in session.inputs]
        self._computed = [name for name in names if name not in session.inputs]
        self._shapes: list[tuple[int, ...]] = []
        self._stacks: dict[str, NDArray[Any]] = {}

    def run(self, group: Sequence[Sample]) -> dict[str, NDArray[Any] | list[NDArray[Any]]]:
        """Run the model on each sample; by name the samples' tensors, until the next call.

        Raises:
            DataError: The model fails on a sample; the text names it.
        """
        fed = {name: [sample.feed[name] for sample in group] for name in self._fed}
        if not self._computed:
            return {**fed}
        if all(_input_shapes(sample) == _input_shapes(group[0]) for sample in group):
            stacked = self._run_stacked(group)
            if stacked is not None:
                return {**fed, **stacked}
        results = [self._run_single(sample) for sample in group]
        return {**fed, **{name: [r[name] for r in results] for name in self._computed}}

    def _run_stacked(self, group: Sequence[Sample]) -> dict[str, NDArray[Any]] | None:
        """The tensors written into the stacks; None where their shapes depend on values."""
        done = 0
        if _input_shapes(group[0]) != self._shapes:
            first = self._run_single(group[0])
            self._stacks = {n: np.empty((self.batch, *a.shape), a.dtype) for n, a in first.items()}
            self._shapes = _input_shapes(group[0])
            for name, array in first.items():
                self._stacks[name][0] = array
            done = 1
        for place, sample in enumerate(group[done:], done):
            try:
                into = {name: stack[place] for name, stack in self._stacks.items()}
                self._session.run_into(sample.feed, into)
            except DataError:
                return None
        return {name: stack[: len(group)] for name, stack in self._stacks.items()}

    def _run_single(self, sample: Sample) -> dict[str, NDArray[Any]]:
        try:
            results = self._session.run(sample.feed, self._computed)
        except DataError as error:
            raise DataError(f"{sample.name}: {error}") from error
        return dict(zip(self._computed, results, strict=True))


def _input_shapes(sample: Sample) -> list[tuple[int, ...]]:
    return [array.shape for array in sample.feed.values()]
