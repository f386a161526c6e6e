"""Statistics of every tensor's values in several splits of the samples, in one pass on all processes of the run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ptq.calibration.collect import (
    NO_SAMPLES,
    BatchBuffers,
    RunningStatistics,
    count_groups,
    empty_statistics,
)
from ptq.core.errors import DataError
from ptq.core.run_options import RunOptions, SizedIterable
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
    run: RunOptions,
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
    own = [empty_statistics(wanted) for _ in splits]
    job = _ObserveJob(graph, wanted, split_of, len(splits), tuple(held), run.for_job(), own)
    received: list[RunningStatistics] = []
    for found in SampleMap(job, run, runs=1).map(samples, least=_LEAST, most=None):
        if found is not own:
            received = list(map(RunningStatistics.merge, received, found)) if received else found
    counted = list(map(RunningStatistics.merge, own, received)) if received else own
    if not any(one.samples for one in counted):
        raise DataError(NO_SAMPLES)
    digest = graph.digest()
    return [Calibration(digest, c.samples, c.tensors, c.channels) for c in counted]


@dataclass(frozen=True, eq=False)
class _ObserveJob:
    """Counts the values of a part, by split.

    Attributes:
        own: What this process counts all its parts into, as none has to be moved; None in another process.
    """

    graph: Graph
    wanted: CollectedTensors
    split_of: Mapping[str, int]
    splits: int
    held: Sequence[str]
    run: RunOptions
    own: list[RunningStatistics] | None = None

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

        latest: list[RunningStatistics] = []

        def observe(part: Part) -> list[RunningStatistics]:
            counted = self.own or [empty_statistics(self.wanted) for _ in range(self.splits)]
            if self.own is None:
                for new, earlier in zip(counted, latest, strict=False):
                    new.expect_merge(earlier)
            split_of = {name: counted[number] for name, number in self.split_of.items()}
            count_groups(memory, _group_by_split(part.samples, split_of, memory))
            latest[:] = counted
            return counted

        return observe


def _group_by_split(
    samples: Iterable[Sample], split_of: Mapping[str, RunningStatistics], memory: BatchBuffers
) -> Iterator[tuple[RunningStatistics, list[Sample]]]:
    """Groups of samples that fit the memory, each of one split, with the statistics of the split."""
    waiting: dict[int, list[Sample]] = {}
    for sample in samples:
        counted = split_of[sample.name]
        group = waiting.setdefault(id(counted), [])
        group.append(sample)
        if len(group) >= memory.next_batch:
            yield counted, waiting.pop(id(counted))
    yield from ((split_of[group[0].name], group) for group in waiting.values())
