"""Calibration on workers: processes of this machine, or a cluster. Each observes shards of the samples."""

from __future__ import annotations

import hashlib
import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ptq.calibration.cluster import Cluster, start_cluster
from ptq.calibration.shard_checkpoint import ShardCheckpoint
from ptq.calibration.shard_job import CalibrationJob, DigestJob, forget_job, keep_opened
from ptq.core import remote
from ptq.core.errors import DataError, PtqError, UsageError
from ptq.core.run_options import DEFAULT_RUN, RunOptions
from ptq.data import Samples
from ptq.data.interrupts import hold_interrupts, ignore_interrupts
from ptq.data.shard_map import Workers, count_shards, map_shards
from ptq.data.splits import SampleOptions
from ptq.model.open import Model, open_model
from ptq.model.serialize import to_pieces
from ptq.observers.calibration_file import Calibration
from ptq.rewrite.prepare.prepare import OpsetOption, open_and_prepare

ALONE_SECONDS = 3.0
"""Processor time that this process works alone first: about what another needs to start, import and load a model."""
_ENDED = (
    "a worker process ended early; use fewer workers if memory is short, and start them under "
    "if __name__ == '__main__' in a script"
)


def collect_on_workers(
    model: Model,
    job: CalibrationJob,
    started: AbstractContextManager[Workers],
    *,
    count: int | None = None,
    checkpoint: str | None = None,
    run: RunOptions = DEFAULT_RUN,
) -> Calibration:
    """Observe a model on workers, a few shards of the samples each.

    The statistics equal those of one process with as many threads, bit for bit.

    Args:
        model: The model.
        job: What the workers do; ``reading`` may hold a shard, which is divided.
        started: Starts the workers.
        count: Number of workers; None for what ``started`` says.
        checkpoint: A file of the shards that are counted; the next run continues from it.
        run: How the job runs here.

    Raises:
        PtqError: An error that one process would raise; of several, the error of the first shard.
    """
    graph = open_and_prepare(model, opset=job.opset)[1].graph
    samples = job.reading.open(job.data, graph)
    keep_opened(job, graph, samples)
    expected, total = _digest_stream(job.data, samples), len(samples)
    advance = run.start_stage("calibrating", total)
    with started as workers:
        shards = count_shards(total, count or workers.count)
        keeper = (
            None if checkpoint is None else ShardCheckpoint(checkpoint, graph.digest(), samples)
        )
        state: Calibration | None = None
        remaining = list(range(shards))
        if keeper is not None:
            state, shards, remaining = keeper.restore(shards, job.keep_samples)
            counted = [(k, shards) for k in range(shards) if k not in {*remaining}]
            keeper.require_contents(
                state, map_shards(DigestJob(job), counted, workers, lambda *_: None)
            )
        for _ in range(0 if state is None else state.samples):
            advance()

        def after(result: Calibration, merged: Calibration) -> None:
            if keeper is not None:
                keeper.save(merged, shards)
            for _ in range(result.samples):
                advance()

        todo = [(index, shards) for index in remaining]
        found = map_shards(job, todo, workers, after, state)
        if keeper is not None and found is not None:
            keeper.save(found, shards, at_once=True)
    assert found is not None and found.identity is not None
    if expected is not None and found.identity.digest != expected:
        raise DataError(
            f"{job.data}: gives other samples in each process; give the same samples in the same order on each pass "
            "(no shuffling, no random augmentation), or use one worker"
        )
    return replace(found, skipped=_sort_skipped(found.skipped, samples))


def _sort_skipped(
    skipped: tuple[tuple[str, str], ...], samples: Samples
) -> tuple[tuple[str, str], ...]:
    """The skipped samples in the order of the samples."""
    if len(skipped) < 2:
        return skipped
    order = {name: index for index, name in enumerate(samples.names)}
    return tuple(sorted(skipped, key=lambda each: order.get(each[0], 0)))


def _digest_stream(data: str, samples: Samples) -> str | None:
    """Digest of samples that a callable gives, of which each process could get others; None for files."""
    if Path(data).exists() or remote.as_url(data) is not None or any(s in data for s in "*?[{"):
        return None
    for _ in samples:
        pass
    return samples.digest


def collect_in_processes(
    model: str,
    data: str,
    reading: SampleOptions,
    workers: int,
    *,
    opset: OpsetOption = "auto",
    checkpoint: str | None = None,
    keep_samples: int = 0,
    run: RunOptions = DEFAULT_RUN,
) -> Calibration:
    """Run `collect_on_workers` in processes of this machine.

    Args:
        model: Path of the model.
        data: Path or URL of the samples, or ``module:callable``.
        reading: How the samples are read.
        workers: Number of processes.
        opset: Whether the opset of the model is kept.
        checkpoint: A file of the shards that are counted.
        keep_samples: The most samples that the statistics keep.
        run: How the job runs.

    Raises:
        UsageError: This process is a daemon, as those of `multiprocessing.Pool` are.
        PtqError: An error that one process would raise; of several, the error of the first shard.
    """
    if multiprocessing.current_process().daemon:
        raise UsageError("a daemon process cannot start workers; use one worker")
    job = CalibrationJob(model, "", data, reading, opset, keep_samples, replace(run, progress=None))
    try:
        return collect_on_workers(
            model, job, _start_processes(workers), count=workers, checkpoint=checkpoint, run=run
        )
    except BrokenProcessPool as error:
        raise PtqError(_ENDED) from error


def collect_on_cluster(
    model: Model,
    data: str,
    reading: SampleOptions,
    cluster: Cluster,
    *,
    opset: OpsetOption = "auto",
    checkpoint: str | None = None,
    keep_samples: int = 0,
    run: RunOptions = DEFAULT_RUN,
) -> Calibration:
    """Run `collect_on_workers` on a cluster or an executor.

    Args:
        model: The model; its content is sent once to each worker.
        data: Path that the workers see too, URL of the samples, or ``module:callable`` that they can import.
        reading: How the samples are read.
        cluster: The cluster.
        opset: Whether the opset of the model is kept.
        checkpoint: A file of the shards that are counted.
        keep_samples: The most samples that the statistics keep.
        run: How the job runs.

    Raises:
        ModelError: The model is larger than 2 GB.
        UsageError: The cluster does not answer.
        PtqError: The cluster fails, or an error that one process would raise.
    """
    content = b"".join(to_pieces(open_model(model).model))
    place = str(Path(data).resolve()) if Path(data).exists() else data
    digest = hashlib.sha256(content).hexdigest()
    job = CalibrationJob(
        "", digest, place, reading, opset, keep_samples, replace(run, progress=None)
    )
    started = start_cluster(cluster, content)
    return collect_on_workers(model, job, started, checkpoint=checkpoint, run=run)


@contextmanager
def _start_processes(count: int) -> Iterator[Workers]:
    """Processes that stay warm for all shards; they end with the block.

    They start only after this process has worked alone for as long as they need to start. A short calibration
    therefore starts none, and a long one loses that time at most. The bits do not depend on it.
    """
    began = time.process_time()
    executor = ProcessPoolExecutor(
        count, multiprocessing.get_context("spawn"), initializer=ignore_interrupts
    )

    def submit(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        if time.process_time() - began < ALONE_SECONDS:
            done: Future[Any] = Future()
            done.set_result(function(*arguments))
            return done
        with hold_interrupts():  # it may start a process
            return executor.submit(function, *arguments)

    try:
        yield Workers(count, submit)
    except BaseException:
        # what runs is not waited for
        for process in list((executor._processes or {}).values()):
            process.terminate()
        raise
    finally:
        executor.shutdown(cancel_futures=True)
        forget_job()
