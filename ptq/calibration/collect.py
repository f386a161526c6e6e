"""One pass of the float model over calibration samples: statistics of every tensor's values.

The model runs one sample at a time: ONNX Runtime's results may depend on the other samples of a batch, but the
statistics must not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.calibration.checkpoint import Checkpoint
from ptq.core.errors import DataError, StatsError
from ptq.core.run_options import DEFAULT_RUN, RunOptions
from ptq.data import Sample
from ptq.data.sample_source import name_sample
from ptq.kernels.thread_pool import get_thread_count, map_in_parallel
from ptq.model.graph import Graph
from ptq.model.session.exposed_session import CollectedTensors, open_session_with_outputs
from ptq.model.session.session import OutputMemory, Session
from ptq.observers.calibration_file import Calibration
from ptq.observers.channel_sums import ChannelSums
from ptq.observers.stats import UNBOUNDED, TensorStats

COUNTING_THREADS = 2
"""Each thread updates the statistics of one tensor; more threads would wait for Python's interpreter lock."""
_STACKED_BYTES = 2**27
"""Tensors of several samples that are counted together; the system clears new memory page by page."""
NO_SAMPLES = "there is no calibration sample; give at least one"


def observe(
    graph: Graph,
    samples: Iterable[Sample],
    wanted: CollectedTensors,
    *,
    held: Collection[str] = (),
    run: RunOptions = DEFAULT_RUN,
    checkpoint: Checkpoint | None = None,
) -> Calibration:
    """Observe tensors over all samples.

    Args:
        graph: A prepared graph.
        samples: The samples to run.
        wanted: The tensors to observe.
        held: Tensors that are computed as if they were observed (see `open_session_with_outputs`).
        run: How the job runs.
        checkpoint: The checkpoint to continue from and to save to; None for none.

    Raises:
        DataError: There is no sample, or the model fails on one; the text names it.
        StatsError: The checkpoint belongs to another model or to other samples.
    """
    digest, counted, remaining = graph.digest(), start_statistics(wanted), iter(samples)

    def state() -> Calibration:
        return Calibration(digest, counted.samples, counted.tensors, counted.channels)

    if checkpoint is not None and (so_far := checkpoint.restore(remaining)) is not None:
        counted = resume_statistics(so_far, wanted)
    session = open_session_with_outputs(graph, wanted, held=held, threads=run.threads)
    after = None if checkpoint is None else lambda group: checkpoint.record_samples(group, state)
    count_values(session, remaining, wanted, counted, run.calibration_batch, after)
    if checkpoint is not None:
        checkpoint.save(state())
    return state()


@dataclass
class RunningStatistics:
    """Statistics that samples are added to.

    Attributes:
        tensors: The statistics of each tensor.
        channels: The channel sums of some tensors.
        samples: How many samples they count.
    """

    tensors: dict[str, TensorStats]
    channels: dict[str, ChannelSums]
    samples: int = 0

    def add_all(self, tensors: Mapping[str, NDArray[Any] | Sequence[NDArray[Any]]]) -> None:
        """Add the values of all tensors on several samples, the largest first, on several threads."""
        largest_first = sorted(tensors, key=lambda name: (-tensors[name][0].size, name))
        map_in_parallel(
            lambda name: self.add(name, tensors[name]), largest_first, most=COUNTING_THREADS
        )

    def add(self, name: str, arrays: NDArray[Any] | Sequence[NDArray[Any]]) -> None:
        """Add the values of one tensor on several samples; threads may add different tensors at once.

        Args:
            name: The tensor.
            arrays: One array for each sample; or one stacked array, which is faster.
        """
        if name in self.tensors:
            for array in [arrays] if isinstance(arrays, np.ndarray) else arrays:
                self.tensors[name].update(array)
        if name in self.channels:
            for stack in [arrays] if isinstance(arrays, np.ndarray) else [a[None] for a in arrays]:
                self.channels[name].update_batch(stack)

    def expect_merge(self, earlier: RunningStatistics) -> None:
        """Count faster, as these will be merged with earlier ones; see `TensorStats.expect_merge`."""
        for name, stats in self.tensors.items():
            stats.expect_merge(earlier.tensors[name])

    def merge(self, other: RunningStatistics) -> RunningStatistics:
        """The statistics of the samples of both."""
        return RunningStatistics(
            {name: stats.merge(other.tensors[name]) for name, stats in self.tensors.items()},
            {name: sums.merge(other.channels[name]) for name, sums in self.channels.items()},
            self.samples + other.samples,
        )


def start_statistics(wanted: CollectedTensors) -> RunningStatistics:
    """Statistics of the wanted tensors over 0 samples."""
    return RunningStatistics(
        {name: TensorStats(bounds=wanted.bounds.get(name, UNBOUNDED)) for name in wanted.tensors},
        {name: ChannelSums(axis) for name, axis in wanted.channel_axes.items()},
    )


def resume_statistics(state: Calibration, wanted: CollectedTensors) -> RunningStatistics:
    """Statistics that continue those of a checkpoint.

    Raises:
        StatsError: They hold other tensors than those wanted.
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
    """Run the model on the samples, one at a time, and add their values to the statistics.

    Args:
        session: The model with the wanted tensors among its outputs.
        samples: The samples to run.
        wanted: The tensors to observe.
        counted: The statistics to add to.
        batch: How many samples are counted together.
        after: Called with each group of samples once it is counted.

    Raises:
        DataError: There is no sample, or the model fails on one; the text names it.
    """
    memory = BatchBuffers(session, wanted.names, max(1, batch))
    groups = group_samples(iter(samples), memory)
    count_groups(memory, ((counted, group) for group in groups), after)
    if not counted.samples:
        raise DataError(NO_SAMPLES)


def group_samples(samples: Iterator[Sample], memory: BatchBuffers) -> Iterator[list[Sample]]:
    """Groups of samples that fit the memory."""
    return iter(lambda: list(islice(samples, memory.next_batch)), [])


def count_groups(
    memory: BatchBuffers,
    groups: Iterable[tuple[RunningStatistics, Sequence[Sample]]],
    after: Callable[[Sequence[Sample]], None] | None = None,
) -> None:
    """Run the model on groups of samples and add each group to its statistics."""
    for counted, group in groups:
        held = memory.run(group)
        counted.add_all(held)
        counted.samples += len(group)
        held.clear()  # else the arrays stay while the next group runs
        if after is not None:
            after(group)


class BatchBuffers:
    """Memory for the tensors of a batch of samples, stacked; every batch reuses it."""

    def __init__(
        self, session: Session, names: Sequence[str], batch: int, *, at_once: bool = False
    ) -> None:
        """Memory of a session that returns the named tensors, unless they are inputs.

        Args:
            session: The session.
            names: The tensors.
            batch: How many samples at most have their tensors in memory together.
            at_once: Several samples run at once if this process has threads that one run does not use. Each takes
                the memory of a run.
        """
        self.batch, self._at_once = batch, at_once
        self._session = session
        self._fed = [name for name in names if name in session.inputs]
        self._computed = [name for name in names if name not in session.inputs]
        self._shapes: list[tuple[int, ...]] = []
        self._stacks: dict[str, NDArray[Any]] = {}
        self._places: list[OutputMemory] = []

    @property
    def next_batch(self) -> int:
        """How many samples to run next: at first one, then as many as 128 MB hold the tensors of, at least two."""
        if not self._computed:
            return self.batch
        return min((len(stack) for stack in self._stacks.values()), default=1)

    def run(self, group: Sequence[Sample]) -> dict[str, NDArray[Any] | list[NDArray[Any]]]:
        """Run the model on each sample; return the tensors by name, valid until the next call.

        Raises:
            DataError: The model fails on a sample; the text names it.
        """
        fed = {name: [sample.feed[name] for sample in group] for name in self._fed}
        if not self._computed:
            return {**fed}
        if self.batch > 1 and all(
            _list_input_shapes(sample) == _list_input_shapes(group[0]) for sample in group
        ):
            stacked = self._run_stacked(group)
            if stacked is not None:
                return {**fed, **stacked}
        results = [self._run_single(sample) for sample in group]
        return {**fed, **{name: [r[name] for r in results] for name in self._computed}}

    def _run_stacked(self, group: Sequence[Sample]) -> dict[str, NDArray[Any]] | None:
        """The tensors written into the stacks; None if their shapes depend on values."""
        done = 0
        if _list_input_shapes(group[0]) != self._shapes or len(group) > self.next_batch:
            first = self._run_single(group[0])
            size = max(1, sum(array.nbytes for array in first.values()))
            count = max(len(group), min(self.batch, max(2, _STACKED_BYTES // size)))
            self._stacks = {n: np.empty((count, *a.shape), a.dtype) for n, a in first.items()}
            self._shapes, self._places = _list_input_shapes(group[0]), []
            for name, array in first.items():
                self._stacks[name][0] = array
            done = 1
        try:
            runs = [(sample.feed, self._bind(at)) for at, sample in enumerate(group[done:], done)]
            map_in_parallel(
                lambda run: self._session.run_into(*run), runs, most=self._most_runs_at_once
            )
        except DataError:
            return None
        return {name: stack[: len(group)] for name, stack in self._stacks.items()}

    @property
    def _most_runs_at_once(self) -> int:
        """How many runs have threads of their own; one where a run takes all."""
        threads = self._session.threads if self._at_once else 0
        return max(1, get_thread_count() // threads) if threads else 1

    def _bind(self, place: int) -> OutputMemory:
        """The memory of so many samples' place in the stacks."""
        for new in range(len(self._places), place + 1):
            into = {name: stack[new] for name, stack in self._stacks.items()}
            self._places.append(self._session.bind(into))
        return self._places[place]

    def _run_single(self, sample: Sample) -> dict[str, NDArray[Any]]:
        with name_sample(sample.name):
            results = self._session.run(sample.feed, self._computed)
        return dict(zip(self._computed, results, strict=True))


def _list_input_shapes(sample: Sample) -> list[tuple[int, ...]]:
    return [array.shape for array in sample.feed.values()]
