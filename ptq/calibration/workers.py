"""Calibration in several processes: each observes one shard of the samples."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from ptq.calibration.calibration import collect_statistics
from ptq.core.errors import DataError, PtqError, UsageError
from ptq.core.run_options import DEFAULT_RUN, RunOptions
from ptq.data import Samples
from ptq.data.sample_digest import merge_digests
from ptq.data.splits import SampleOptions
from ptq.observers.calibration_file import Calibration, from_bytes
from ptq.rewrite.prepare.prepare import OpsetOption, open_and_prepare


def collect_in_processes(
    model: str,
    data: str,
    reading: SampleOptions,
    workers: int,
    *,
    opset: OpsetOption = "auto",
    run: RunOptions = DEFAULT_RUN,
) -> Calibration:
    """Observe a model in several processes, one shard of the samples each.

    The statistics equal those of one process with as many threads, bit for bit.

    Args:
        model: Path of the model.
        data: Path of the samples, or ``module:callable``.
        reading: How the samples are read.
        workers: Number of processes.
        opset: Whether the opset of the model is kept.
        run: How the job runs.

    Raises:
        UsageError: This process is a daemon, as those of `multiprocessing.Pool` are.
        PtqError: An error that one process would raise; of several, the error of the first shard.
    """
    if multiprocessing.current_process().daemon:
        raise UsageError("a daemon process cannot start workers; use one worker")
    graph = open_and_prepare(model, opset=opset)[1].graph
    samples = reading.open(data, graph)
    expected, total = _digest_stream(data, samples), len(samples)
    advance = run.start_stage("calibrating", total)
    (first, stride), count = reading.shard or (0, 1), max(1, min(workers, total))
    context = multiprocessing.get_context("spawn")
    readers, processes = [], []
    try:
        for index in range(count):
            reader, writer = context.Pipe(duplex=False)
            shard = replace(reading, shard=(first + index * stride, stride * count))
            arguments = (model, data, shard, opset, replace(run, progress=None), writer)
            process = context.Process(target=_run_worker, args=arguments, daemon=True)
            with _hold_interrupts():
                process.start()
                processes.append(process)
            # only the worker's own end stays open, so that the pipe closes when the worker ends
            writer.close()
            readers.append(reader)
        calibrations, digests = _collect_results(readers, advance)
        if expected is not None and reduce(merge_digests, digests) != expected:
            raise DataError(
                f"{data}: gives other samples in each process; give the same samples in the same order on each pass "
                "(no shuffling, no random augmentation), or use one worker"
            )
        return reduce(Calibration.merge, calibrations)
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _digest_stream(data: str, samples: Samples) -> str | None:
    """Digest of samples that a callable gives, of which each process could get others; None for files."""
    if Path(data).exists():
        return None
    for _ in samples:
        pass
    return samples.digest


@contextmanager
def _hold_interrupts() -> Iterator[None]:
    """Delay Ctrl-C; a process that starts in the meantime never receives it, however long its imports take."""
    received: list[int] = []
    masks = hasattr(signal, "pthread_sigmask")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]) if masks else set()
    # the mask holds for this thread only; another thread may receive the signal for the process
    handles = threading.current_thread() is threading.main_thread()
    handler = (
        signal.signal(signal.SIGINT, lambda number, _: received.append(number)) if handles else None
    )
    try:
        yield
    finally:
        if handler is not None:
            signal.signal(signal.SIGINT, handler)
        if masks:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if received:
        signal.raise_signal(signal.SIGINT)


def _collect_results(
    readers: list[Connection], advance: Callable[[], None]
) -> tuple[list[Calibration], list[str]]:
    """The statistics of each worker and the digest of its samples, in the order of the workers."""
    ended: dict[Connection, Any] = {}
    while len(ended) < len(readers):
        ready = wait([reader for reader in readers if reader not in ended])
        for reader in (r for r in readers if r in ready):
            try:
                message = reader.recv()
            except EOFError:
                message = PtqError(
                    "a worker process ended early; use fewer workers if memory is short, and start them under "
                    "if __name__ == '__main__' in a script"
                )
            if message is None:
                advance()
            else:
                ended[reader] = message
    found, digests = [], []
    for reader in readers:
        message = ended[reader]
        if isinstance(message, Exception):
            raise message
        content, skipped, digest = message
        digests.append(digest)
        found.append(replace(from_bytes(content, "a worker"), skipped=skipped))
    return found, digests


def _run_worker(
    model: str,
    data: str,
    reading: SampleOptions,
    opset: OpsetOption,
    run: RunOptions,
    writer: Connection,
) -> None:
    """Run one process: send None for each sample, then the statistics or the error."""
    # Ctrl-C reaches the parent too, which ends this process
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def progress(stage: str, total: int | None) -> Callable[[], None]:
        return lambda: writer.send(None)

    try:
        graph = open_and_prepare(model, opset=opset)[1].graph
        samples = reading.open(data, graph)
        found = collect_statistics(graph, samples, run=replace(run, progress=progress))
        writer.send((found.to_bytes(), found.skipped, samples.digest))
    except PtqError as error:
        writer.send(error)
    except Exception as error:  # an internal error: the parent reports it
        writer.send(RuntimeError(f"in a worker: {type(error).__name__}: {error}"))
