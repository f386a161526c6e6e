"""Statistics of every tensor's values in several splits of the samples, in one pass on all processes of the run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ptq.calibration.collect import (
    NO_SAMPLES,
    BatchBuffers,
    RunningStatistics,
    count_groups,
    start_statistics,
)
from ptq.core.errors import DataError
from ptq.core.run_options import RunOptions, SizedIterable
from ptq.data import Sample
from ptq.data.workers.accumulating_map import AccumulatingMap
from ptq.model.graph import Graph
from ptq.model.session.exposed_session import CollectedTensors, open_session_with_outputs
from ptq.observers.calibration_file import Calibration


def observe_splits(
    graph: Graph,
    samples: SizedIterable[Sample],
    wanted: CollectedTensors,
    splits: Sequence[Collection[str]],
    *,
    held: Collection[str] = (),
    run: RunOptions,
) -> list[Calibration]:
    """Observe tensors over several splits of the samples in one pass; one result for each split.

    Args:
        graph: A prepared graph.
        samples: The samples to run.
        wanted: The tensors to observe.
        splits: The names of each split's samples.
        held: Tensors that are computed as if they were observed (see `open_session_with_outputs`).
        run: How the job runs.

    Raises:
        DataError: There is no sample, or the model fails on one; the text names it.
    """
    split_of = {name: number for number, names in enumerate(splits) for name in names}
    job = _CountJob(graph, wanted, split_of, len(splits), tuple(held), run.for_job())
    counted: list[RunningStatistics] = []
    for found in AccumulatingMap(job, run, runs=1).sum_up(samples):
        counted = list(map(RunningStatistics.merge, counted, found)) if counted else found
    if not any(one.samples for one in counted):
        raise DataError(NO_SAMPLES)
    digest = graph.digest()
    return [Calibration(digest, c.samples, c.tensors, c.channels) for c in counted]


@dataclass(frozen=True, eq=False)
class _CountJob:
    """Counts values, by split."""

    graph: Graph
    wanted: CollectedTensors
    split_of: Mapping[str, int]
    splits: int
    held: Sequence[str]
    run: RunOptions

    def open(self) -> _SplitCounter:
        session = open_session_with_outputs(
            self.graph,
            self.wanted,
            held=self.held,
            threads=self.run.threads,
            memory_arena=self.run.memory is None,
        )
        memory = BatchBuffers(session, self.wanted.names, max(1, self.run.calibration_batch))
        return _SplitCounter(self, memory)


class _SplitCounter:
    """The statistics of each split so far, and samples that wait for others of their split to run with them.

    Attributes:
        total: The statistics.
    """

    def __init__(self, job: _CountJob, memory: BatchBuffers) -> None:
        self._job, self._memory = job, memory
        self.total = self._make_empty()
        self._waiting: list[list[Sample]] = [[] for _ in self.total]

    def add(self, samples: Iterable[Sample]) -> None:
        """Count groups of samples that fit the memory, each of one split."""
        for sample in samples:
            split = self._job.split_of[sample.name]
            self._waiting[split].append(sample)
            if len(self._waiting[split]) >= self._memory.next_batch:
                self._count(split)

    def collect(self) -> list[RunningStatistics]:
        """The statistics of all samples since the last time; later ones must be merged with them."""
        for split, group in enumerate(self._waiting):
            if group:
                self._count(split)
        found, self.total = self.total, self._make_empty()
        for new, earlier in zip(self.total, found, strict=True):
            new.expect_merge(earlier)
        return found

    def discard(self) -> None:
        """Begin anew."""
        self.total, self._waiting = self._make_empty(), [[] for _ in self.total]

    def _count(self, split: int) -> None:
        group, self._waiting[split] = self._waiting[split], []
        count_groups(self._memory, [(self.total[split], group)])

    def _make_empty(self) -> list[RunningStatistics]:
        return [start_statistics(self._job.wanted) for _ in range(self._job.splits)]
