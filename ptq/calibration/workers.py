"""Statistics of one model from several processes, a shard of the samples each."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from multiprocessing.connection import Connection, wait
from typing import Any

from ptq.calibration.calibration import collect_statistics
from ptq.core.errors import PtqError
from ptq.core.run_options import DEFAULT_RUN, RunOptions
from ptq.data.splits import SampleOptions
from ptq.observers.calibration_file import Calibration, from_bytes
from ptq.rewrite.prepare.prepare import open_and_prepare


def collect_in_processes(
    model: str,
    data: str,
    choice: SampleOptions,
    workers: int,
    *,
    run: RunOptions = DEFAULT_RUN,
) -> Calibration:
    """Observe a model in several processes, a shard of the samples each.

    The statistics are those of one process with as many threads, bit for bit.

    Args:
        model: Path of the model.
        data: Path of the samples, or ``module:callable``.
        choice: How the samples are read.
        workers: Number of processes.
        run: How the job runs.

    Raises:
        PtqError: As one process would; of several errors, that of the first shard.
    """
    graph = open_and_prepare(model)[1].graph
    total = len(choice.open(data, graph))
    advance = run.start_stage("calibrating", total)
    (first, step), count = choice.shard or (0, 1), max(1, min(workers, total))
    context = multiprocessing.get_context("spawn")
    readers, processes = [], []
    try:
        for index in range(count):
            reader, writer = context.Pipe(duplex=False)
            part = replace(choice, shard=(first + index * step, step * count))
            arguments = (model, data, part, replace(run, progress=None), writer)
            process = context.Process(target=_run_worker, args=arguments, daemon=True)
            with _hold_interrupts():
                process.start()
                processes.append(process)
            writer.close()  # so that the worker's own end is the last: its death closes the pipe
            readers.append(reader)
        return reduce(Calibration.merge, _collect_results(readers, advance))
    finally:
        for process in processes:
            process.terminate()
            process.join()


@contextmanager
def _hold_interrupts() -> Iterator[None]:
    """Hold Ctrl-C back; a process that starts meanwhile never gets it, however long its imports take."""
    came: list[int] = []
    masks = hasattr(signal, "pthread_sigmask")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]) if masks else set()
    # the mask is this thread's alone; another one may take the signal for the process
    handles = threading.current_thread() is threading.main_thread()
    handler = (
        signal.signal(signal.SIGINT, lambda number, _: came.append(number)) if handles else None
    )
    try:
        yield
    finally:
        if handler is not None:
            signal.signal(signal.SIGINT, handler)
        if masks:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if came:
        signal.raise_signal(signal.SIGINT)


def _collect_results(readers: list[Connection], advance: Callable[[], None]) -> list[Calibration]:
    """What each worker found, in the order of the workers."""
    ended: dict[Connection, Any] = {}
    while len(ended) < len(readers):
        ready = wait([reader for reader in readers if reader not in ended])
        for reader in (r for r in readers if r in ready):
            try:
                message = reader.recv()
            except EOFError:
                message = PtqError("a worker was ended from outside; use fewer workers")
            if message is None:
                advance()
            else:
                ended[reader] = message
    found = []
    for reader in readers:
        message = ended[reader]
        if isinstance(message, Exception):
            raise message
        content, skipped = message
        found.append(replace(from_bytes(content, "a worker"), skipped=skipped))
    return found


def _run_worker(
    model: str, data: str, choice: SampleOptions, run: RunOptions, writer: Connection
) -> None:
    """One process: send None for each sample, at last the statistics or the error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted too, and ends this

    def progress(stage: str, total: int | None) -> Callable[[], None]:
        return lambda: writer.send(None)

    try:
        graph = open_and_prepare(model)[1].graph
        samples = choice.open(data, graph)
        found = collect_statistics(graph, samples, run=replace(run, progress=progress))
        writer.send((found.to_bytes(), found.skipped))
    except PtqError as error:
        writer.send(error)
    except Exception as error:  # a fault of ptq itself: said by the parent, as any other
        writer.send(RuntimeError(f"in a worker: {type(error).__name__}: {error}"))
