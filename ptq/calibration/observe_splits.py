"""Statistics of every tensor's values in several splits of the samples, in one pass on all processes of the run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ptq.calibration.collect import (
    NO_SAMPLES,
    BatchBuffers,
    RunningStatistics,
    count_groups,
    empty_statistics,
)
from ptq.core.errors import DataError
from ptq.core.run_options import DEFAULT_RUN, RunOptions, SizedIterable
from ptq.data import Sample
from ptq.data.sample_map import SampleMap
from ptq.data.sample_parts import Part
from ptq.model.exposed_session import CollectedTensors, session_with_outputs
from ptq.model.graph import Graph
from ptq.observers.calibration_file import Calibration

_LEAST = 4
"""Samples of a part: the statistics of a part take megabytes."""


def observe_splits(
    graph: Graph,
    samples: SizedIterable[Sample],
    wanted: CollectedTensors,
    splits: Sequence[Collection[str]],
    *,
    held: Collection[str] = (),
    run: RunOptions = DEFAULT_RUN,
) -> list[Calibration]:
    """Observe tensors over several splits of the samples in one pass; one result for each split.

    Args:
        graph: A prepared graph.
        samples: The samples to run.
        wanted: The tensors to observe.
        splits: The names of each split's samples.
        held: Tensors that are computed as if they were observed (see `session_with_outputs`).
        run: How the job runs.

    Raises:
        DataError: There is no sample, or the model fails on one; the text names it.
    """
    split_of = {name: number for number, names in enumerate(splits) for name in names}
    own = _SplitCounter([empty_statistics(wanted) for _ in splits], split_of)
    job = _ObserveJob(graph, wanted, split_of, len(splits), tuple(held), run.for_job(), own)
    received: list[RunningStatistics] = []
    parts = SampleMap(job, run, runs=1)
    for found in parts.map(samples, least=_LEAST, most=None, meanwhile=own.finish):
        if found is not own.counted:
            received = list(map(RunningStatistics.merge, received, found)) if received else found
    own.finish()
    counted = own.counted
    if received:
        counted = list(map(RunningStatistics.merge, counted, received))
    if not any(one.samples for one in counted):
        raise DataError(NO_SAMPLES)
    digest = graph.digest()
    return [Calibration(digest, c.samples, c.tensors, c.channels) for c in counted]


class _SplitCounter:
    """Counts samples by split, as many of one split together as the memory takes.

    Attributes:
        counted: The statistics of each split.
    """

    def __init__(self, counted: list[RunningStatistics], split_of: Mapping[str, int]) -> None:
        """Take empty statistics of each split, and the number of the split of each sample."""
        self.counted, self._split_of = counted, split_of
        self._waiting: dict[int, list[Sample]] = {}
        self._memory: BatchBuffers | None = None

    def add(self, samples: Iterable[Sample], memory: BatchBuffers) -> None:
        """Count samples; some may wait for others of their split."""
        self._memory = memory
        count_groups(memory, self._full_groups(samples, memory))

    def finish(self) -> None:
        """Count the samples that wait."""
        if self._memory is not None:
            rest = ((self.counted[split], group) for split, group in self._waiting.items())
            count_groups(self._memory, rest)
            self._waiting.clear()

    def _full_groups(
        self, samples: Iterable[Sample], memory: BatchBuffers
    ) -> Iterator[tuple[RunningStatistics, list[Sample]]]:
        for sample in samples:
            split = self._split_of[sample.name]
            group = self._waiting.setdefault(split, [])
            group.append(sample)
            if len(group) >= memory.next_batch:
                yield self.counted[split], self._waiting.pop(split)


@dataclass(frozen=True, eq=False)
class _ObserveJob:
    """Counts the values of a part, by split.

    Attributes:
        own: Counts all parts of this process, as none has to be moved; None in another process.
    """

    graph: Graph
    wanted: CollectedTensors
    split_of: Mapping[str, int]
    splits: int
    held: Sequence[str]
    run: RunOptions
    own: _SplitCounter | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _ObserveJob, (
            self.graph, self.wanted, self.split_of, self.splits, self.held, self.run,
        )  # fmt: skip

    def open(self) -> Callable[[Part], list[RunningStatistics]]:
        session = session_with_outputs(
            self.graph,
            self.wanted,
            held=self.held,
            threads=self.run.threads,
            memory_arena=self.run.memory is None,
        )
        memory = BatchBuffers(session, self.wanted.names, max(1, self.run.calibration_batch))
        if self.own is not None:
            return partial(_count_own, self.own, memory)
        latest: list[RunningStatistics] = []

        def observe(part: Part) -> list[RunningStatistics]:
            counted = [empty_statistics(self.wanted) for _ in range(self.splits)]
            for new, earlier in zip(counted, latest, strict=False):
                new.expect_merge(earlier)
            counter = _SplitCounter(counted, self.split_of)
            counter.add(part.samples, memory)
            counter.finish()
            latest[:] = counted
            return counted

        return observe


def _count_own(own: _SplitCounter, memory: BatchBuffers, part: Part) -> list[RunningStatistics]:
    """Count a part of this process; return the statistics of all its parts, but for the samples that wait."""
    own.add(part.samples, memory)
    if not part.count:  # it is the only one
        own.finish()
    return own.counted
