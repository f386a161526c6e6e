"""Calibration on workers: each counts shards of the samples, and their statistics are merged as they arrive.

A shard is read where it is counted. Its statistics say which samples they count, so memory does not grow with them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import cast

from ptq.calibration.calibration import add_sample_records, keep_passing, list_tensors_to_collect
from ptq.calibration.collect import (
    NO_SAMPLES,
    BatchBuffers,
    count_groups,
    group_samples,
    start_statistics,
)
from ptq.calibration.identify import Listing, digest_listing
from ptq.calibration.shard_checkpoint import ShardCheckpoint
from ptq.core import remote
from ptq.core.errors import DataError, StatsError
from ptq.core.run_options import RunOptions
from ptq.core.stages import CALIBRATING
from ptq.data import Samples
from ptq.data.sample_digest import merge_digests
from ptq.data.sample_source import refuse_bad
from ptq.data.workers.sample_map import SampleMap
from ptq.data.workers.sample_parts import GoodSamples, Part, Shard
from ptq.model.graph import Graph
from ptq.model.machine.maker import list_differences
from ptq.model.session.exposed_session import open_session_with_outputs
from ptq.observers.calibration_file import Calibration
from ptq.observers.keep_limit import KeepLimit
from ptq.observers.kept_samples import SampleKeeper

SAMPLES_PER_SHARD = 32
"""Samples of a shard, where there are many: few enough that a lost shard costs little."""
_SHARDS_PER_WORKER = 64
"""Most shards for each worker; they bound what arrives to be merged."""


def collect_in_shards(
    graph: Graph,
    data: str,
    samples: Samples,
    *,
    checkpoint: str | None,
    keep: KeepLimit,
    run: RunOptions,
) -> Calibration:
    """Observe a prepared graph on the workers of the run.

    The statistics equal those of one process with as many threads, bit for bit.

    Args:
        graph: The prepared graph.
        data: What the user calls the samples.
        samples: The samples, which workers can open; they may be a shard, which is divided.
        checkpoint: A file of the shards that are counted; the next run continues from it.
        keep: The most samples that the statistics keep.
        run: How the job runs, with its workers.

    Raises:
        PtqError: An error that one process would raise, or a cluster that fails.
        StatsError: The checkpoint belongs to another model or to other samples, or workers differ.
    """
    expected, total = _digest_stream(data, samples), len(samples)
    advance = run.start_stage(CALIBRATING, total)
    assert run.pool is not None
    shards, todo = count_shards(total, run.pool.count), list[int]()
    state: Calibration | None = None
    saved = None
    if checkpoint is None:
        todo = list(range(shards))
    else:
        saved = ShardCheckpoint(checkpoint, graph.digest(), samples)
        state, shards, todo = saved.restore(shards, keep)
        counted = [(k, shards) for k in range(shards) if k not in {*todo}]
        saved.require_contents(state, _digest_shards(samples, counted, run))
    for _ in range(0 if state is None else state.samples):
        advance()
    job = CalibrationJob(graph, digest_listing(samples), keep, run.for_job())
    parts = SampleMap(job, run).map_shards(samples, [(k, shards) for k in todo])
    for _, found in parts:
        state = found if state is None else _merge(state, found)
        if saved is not None:
            saved.save(state, shards)
        for _ in range(found.samples):
            advance()
    advance.end()
    if state is None or not state.samples:
        refuse_bad(() if state is None else state.skipped)
        raise DataError(NO_SAMPLES)
    if saved is not None:
        saved.save(state, shards, at_once=True)
    if expected is not None and state.identity is not None and state.identity.digest != expected:
        raise DataError(
            f"{data}: gives other samples in each process; give the same samples in the same order on each pass "
            "(no shuffling, no random augmentation), or use one worker"
        )
    return replace(state, skipped=_sort_skipped(state.skipped, samples))


def count_shards(samples: int, workers: int) -> int:
    """Into how many shards a number of samples is divided for so many workers."""
    wanted = max(workers, -(-samples // SAMPLES_PER_SHARD))
    return max(1, min(samples, wanted, workers * _SHARDS_PER_WORKER))


def _digest_stream(data: str, samples: Samples) -> str | None:
    """Digest of samples that a callable gives, of which each process could get others; None for files."""
    if os.path.exists(data) or remote.as_url(data) is not None or any(s in data for s in "*?[{"):
        return None
    for _ in samples:
        pass
    return samples.digest


def _digest_shards(samples: Samples, shards: Sequence[Shard], run: RunOptions) -> str | None:
    """Digest of the good samples of shards; None without any. Nothing runs."""
    digests = (digest for _, digest in SampleMap(_DigestJob(), run).map_shards(samples, shards))
    return reduce(merge_digests, digests) if shards else None


def _merge(first: Calibration, second: Calibration) -> Calibration:
    """The statistics of both.

    Raises:
        StatsError: The workers have different versions or kinds of processor, whose last bits may differ.
    """
    merged = first.merge(second)
    if merged.identity is not None and len(merged.identity.made_by) > 1:
        differ = ", ".join(list_differences(merged.identity.made_by))
        raise StatsError(
            f"the workers have different versions of {differ}; install the same on each"
        )
    return merged


def _sort_skipped(
    skipped: tuple[tuple[str, str], ...], samples: Samples
) -> tuple[tuple[str, str], ...]:
    """The skipped samples in the order of the samples."""
    if len(skipped) < 2:
        return skipped
    order = {name: index for index, name in enumerate(samples.names)}
    return tuple(sorted(skipped, key=lambda each: order.get(each[0], 0)))


@dataclass(frozen=True, eq=False)
class CalibrationJob:
    """Observe a prepared graph on shards of samples.

    Attributes:
        graph: The prepared graph.
        listing: That of all samples.
        keep: The most samples that the statistics keep.
        run: How the job runs on a worker.
    """

    graph: Graph
    listing: Listing
    keep: KeepLimit
    run: RunOptions

    def open(self) -> Callable[[Part], Calibration]:
        """Load the model with the tensors to observe among its outputs."""
        wanted, digest = list_tensors_to_collect(self.graph), self.graph.digest()
        session = open_session_with_outputs(self.graph, wanted, threads=self.run.threads)
        memory = BatchBuffers(session, wanted.names, max(1, self.run.calibration_batch))

        def count(part: Part) -> Calibration:
            samples = cast(GoodSamples, part.samples).samples
            keeper = SampleKeeper(self.keep) if self.keep else None
            counted = start_statistics(wanted)
            passing = iter(part.samples) if keeper is None else keep_passing(keeper, part.samples)
            count_groups(memory, ((counted, group) for group in group_samples(passing, memory)))
            found = Calibration(digest, counted.samples, counted.tensors, counted.channels)
            return add_sample_records(found, samples, keeper, self.listing)

        return count


@dataclass(frozen=True)
class _DigestJob:
    """Digest the good samples of a shard."""

    def open(self) -> Callable[[Part], str]:
        def digest(part: Part) -> str:
            for _ in part.samples:
                pass
            return cast(GoodSamples, part.samples).samples.digest

        return digest
