"""How are the statistics of a model gathered: from a file, in this process, or in several?"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from ptq.calibrate import BATCH, Wanted, observe, observe_each
from ptq.checkpoint import Checkpoint
from ptq.data import Samples, folds
from ptq.errors import PtqError, StatsError
from ptq.feeding import Choice, Progress, begun, told
from ptq.graph import Graph
from ptq.observers.store import Calibration, from_bytes, load
from ptq.ready import made_ready
from ptq.rewrite.bias import channel_axes
from ptq.solve import tensors_to_observe

FOLDS = 4
_FEWEST = 2 * FOLDS
"""Samples: fewer judge ranges that they have set themselves."""


@dataclass(frozen=True, eq=False)
class Fold:
    """What ranges are judged by.

    Attributes:
        calibration: Statistics of the samples that set the ranges: all others, where there are several folds.
        samples: Those to judge on.
    """

    calibration: Calibration
    samples: Samples


def wanted(graph: Graph) -> Wanted:
    """What to observe of a prepared graph, whatever will be asked of the statistics."""
    return Wanted(tensors_to_observe(graph), channel_axes(graph))


def gathered(
    graph: Graph,
    samples: Samples,
    *,
    batch: int = BATCH,
    threads: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Calibration:
    """Observe a prepared graph on samples, from where a checkpoint stopped.

    Raises:
        DataError: A sample is missing, unreadable or does not fit.
        StatsError: The checkpoint belongs to something else.
    """
    keeper = None if checkpoint is None else Checkpoint(Path(checkpoint), graph.digest())
    counted = told(samples, "calibrating", progress)
    calibration = observe(
        graph, counted, wanted(graph), batch=batch, threads=threads, keeper=keeper
    )
    return replace(calibration, skipped=tuple(samples.skipped))


def gathered_in_folds(
    graph: Graph,
    samples: Samples,
    *,
    threads: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> tuple[Calibration, list[Fold]]:
    """As `gathered`, with what ranges are to be judged by: each quarter of the samples judges what the others set.

    One fold holds all of them where they are few or a checkpoint is kept.

    Raises:
        DataError: A sample is missing, unreadable or does not fit.
        StatsError: The checkpoint belongs to something else.
    """
    if checkpoint is not None or len(samples) < _FEWEST:
        whole = gathered(graph, samples, threads=threads, checkpoint=checkpoint, progress=progress)
        return whole, [Fold(whole, samples)]
    parts, read = folds(samples, FOLDS), told(samples, "calibrating", progress)
    seen = observe_each(graph, read, wanted(graph), [p.names for p in parts], threads=threads)
    whole = replace(reduce(Calibration.merge, seen), skipped=tuple(samples.skipped))
    bad = {name for name, _ in samples.skipped}
    judges = []
    for place, part in enumerate(parts):
        others = reduce(Calibration.merge, seen[:place] + seen[place + 1 :])
        if seen[place].samples and others.samples:
            judges.append(Fold(others, _without(bad, part)))
    return whole, judges or [Fold(whole, _without(bad, samples))]


def _without(bad: Collection[str], samples: Samples) -> Samples:
    return samples.subset(lambda name: name not in bad) if bad else samples


def known_or_gathered(
    graph: Graph,
    samples: Samples | None,
    stats: Calibration | None,
    *,
    threads: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> tuple[Calibration, list[Fold]]:
    """Statistics as they are given, else those of the samples, none where there are none; and what judges ranges.

    Raises:
        DataError: A sample is missing, unreadable or does not fit.
        StatsError: The statistics or the checkpoint belong to something else.
    """
    if stats is not None:
        calibration = known(stats, graph.digest())
        return calibration, [] if samples is None else [Fold(calibration, samples)]
    if samples is None:
        return Calibration(graph.digest(), 0, {}), []
    return gathered_in_folds(
        graph, samples, threads=threads, checkpoint=checkpoint, progress=progress
    )


def opened(stats: Calibration | str | os.PathLike[str] | None) -> Calibration | None:
    """Statistics as they are, or out of their file.

    Raises:
        StatsError: The file is missing, damaged, or of another kind.
    """
    return stats if stats is None or isinstance(stats, Calibration) else load(Path(stats))


def known(stats: Calibration, digest: str) -> Calibration:
    """Statistics of an earlier calibration, which must be of this graph.

    Raises:
        StatsError: They are of another graph.
    """
    if stats.graph != digest:
        raise StatsError("the statistics belong to another graph; calibrate this model again")
    return stats


def together(
    model: str,
    data: str,
    choice: Choice,
    workers: int,
    *,
    batch: int = BATCH,
    threads: int = 0,
    progress: Progress | None = None,
) -> Calibration:
    """Observe a model in several processes, a shard of the samples each.

    The statistics are those of one process with as many threads, bit for bit.

    Args:
        model: Path of the model.
        data: Path of the samples, or ``module:callable``.
        choice: How the samples are read.
        workers: Number of processes.
        batch: Samples that one process counts together.
        threads: Threads for one operator, in each process; 0 is one a core.
        progress: Told how far it is.

    Raises:
        PtqError: As one process would; of several errors, that of the first shard.
    """
    graph = made_ready(model)[1].graph
    total = len(choice.open(data, graph))
    advance = begun("calibrating", total, progress)
    (first, step), count = choice.shard or (0, 1), max(1, min(workers, total))
    context = multiprocessing.get_context("spawn")
    readers, processes = [], []
    try:
        for index in range(count):
            reader, writer = context.Pipe(duplex=False)
            part = replace(choice, shard=(first + index * step, step * count))
            arguments = (model, data, part, batch, threads, writer)
            process = context.Process(target=_work, args=arguments, daemon=True)
            with _uninterrupted():
                process.start()
                processes.append(process)
            writer.close()  # so that the worker's own end is the last: its death closes the pipe
            readers.append(reader)
        return reduce(Calibration.merge, _results(readers, advance))
    finally:
        for process in processes:
            process.terminate()
            process.join()


@contextmanager
def _uninterrupted() -> Iterator[None]:
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


def _results(readers: list[Connection], advance: Callable[[], None]) -> list[Calibration]:
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


def _work(
    model: str, data: str, choice: Choice, batch: int, threads: int, writer: Connection
) -> None:
    """One process: send None for each sample, at last the statistics or the error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted too, and ends this

    def progress(stage: str, total: int | None) -> Callable[[], None]:
        return lambda: writer.send(None)

    try:
        graph = made_ready(model)[1].graph
        samples = choice.open(data, graph)
        found = gathered(graph, samples, batch=batch, threads=threads, progress=progress)
        writer.send((found.to_bytes(), found.skipped))
    except PtqError as error:
        writer.send(error)
    except Exception as error:  # a fault of ptq itself: said by the parent, as any other
        writer.send(RuntimeError(f"in a worker: {type(error).__name__}: {error}"))
