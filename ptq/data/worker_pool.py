"""Processes of this machine that run parts of the samples, warm over a whole run, beside this one.

They start only after this process has worked for about as long as they need to start, and it works on meanwhile. So
a short run starts none. Each is an executor of its own, and runs one job after another. A job is pickled once, into a
file, and a process opens it once.
"""

from __future__ import annotations

import hashlib
import logging
import multiprocessing
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import wraps
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from ptq.core.errors import PtqError, UsageError, short_message
from ptq.core.option_checks import require_count
from ptq.core.run_options import RunOptions
from ptq.core.wording import plural
from ptq.data.interrupts import hold_interrupts, ignore_interrupts

ALONE_SECONDS = 2.0
"""Processor time after which a run starts its processes: about what one needs to start."""
ENDED = (
    "a worker process ended early; use fewer workers if memory is short, and start them under "
    "if __name__ == '__main__' in a script"
)
_ONE_THREAD = ("PTQ_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_LOG = logging.getLogger("ptq")

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class SharedJob:
    """A job that other processes read from a file.

    Attributes:
        number: Its number among the jobs of the pool.
        path: The file.
        digest: SHA-256 of its content; a process opens no other one.
    """

    number: int
    path: str
    digest: bytes


@dataclass(eq=False)
class Worker:
    """One process."""

    _executor: ProcessPoolExecutor
    _started: Future[bool]
    _futures: list[Future[Any]] = field(default_factory=list)
    _closed_jobs: list[int] = field(default_factory=list)

    @property
    def waiting(self) -> int:
        """How many parts it has that are not done."""
        self._futures = [future for future in self._futures if not future.done()]
        return len(self._futures)

    @property
    def is_ready(self) -> bool:
        """Whether it has started; raise an error if it ended instead."""
        if not self._started.done():
            return False
        try:
            return self._started.result()
        except BrokenProcessPool as error:
            raise PtqError(ENDED) from error

    def submit(self, job: SharedJob, part: Any) -> Future[Any]:
        """Run a part of a job; the result raises `BrokenProcessPool` if the process has ended."""
        closed, self._closed_jobs = self._closed_jobs, []
        try:
            future = self._executor.submit(_run_part, job, closed, part)
        except BrokenProcessPool as error:
            future = Future()
            future.set_exception(error)
        self._futures.append(future)
        return future

    def close_job(self, number: int) -> None:
        """Free a job, as soon as the process gets its next part."""
        self._closed_jobs.append(number)

    def stop(self) -> None:
        """End the process, whatever it does."""
        for process in list((self._executor._processes or {}).values()):
            process.terminate()
        self._executor.shutdown(cancel_futures=True)


class ProcessPool:
    """Processes for a run; this process is one of them, so ``count`` − 1 are started."""

    def __init__(self, count: int) -> None:
        """Start nothing yet."""
        self.count = count
        self._began, self._jobs = time.process_time(), 0
        self._workers: list[Worker] | None = None
        self._folder = ""

    def ready(self) -> Sequence[Worker]:
        """The processes that have started and did not end. It starts them when it is time to.

        Raises:
            PtqError: One ended while it started.
        """
        if self._workers is None:
            if time.process_time() - self._began < ALONE_SECONDS:
                return ()
            with hold_interrupts(), _set_one_thread():
                self._workers = [_start_worker() for _ in range(self.count - 1)]
            _LOG.info("started %s", plural(self.count - 1, "worker process"))
        return [worker for worker in self._workers if worker.is_ready]

    def drop(self, worker: Worker) -> None:
        """Go on without a process that ended."""
        if self._workers and worker in self._workers:
            _LOG.warning("a worker process ended early; its samples run again in another one")
        self._workers = [one for one in self._workers or () if one is not worker]
        worker.stop()

    def share(self, job: Any) -> SharedJob:
        """Write a job for the other processes.

        Raises:
            PtqError: The file cannot be written.
        """
        self._folder = self._folder or tempfile.mkdtemp(prefix="ptq-")
        self._jobs += 1
        path = Path(self._folder, f"{self._jobs}.job")
        try:
            content = bytes(ForkingPickler.dumps(job))
            path.write_bytes(content)
        except OSError as error:
            raise PtqError(
                f"{path}: cannot write what worker processes need ({short_message(error)}); make room, or use one "
                "worker"
            ) from error
        return SharedJob(self._jobs, str(path), hashlib.sha256(content).digest())

    def close_job(self, job: SharedJob) -> None:
        """Free a job in all processes."""
        Path(job.path).unlink(missing_ok=True)
        for worker in self._workers or ():
            worker.close_job(job.number)

    def stop(self) -> None:
        """End all processes, and remove the files of the jobs."""
        for worker in self._workers or ():
            worker.stop()
        self._workers = []
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)


_pools = ContextVar[list[ProcessPool]]("pools")


def start_workers(run: RunOptions, count: int) -> RunOptions:
    """The options with a pool of ``count`` processes with this one; unchanged for one.

    Only a verb with `stop_workers_at_end` may call it. Each process runs models on one thread unless the options name
    another number.

    Raises:
        UsageError: This process is a daemon, as those of `multiprocessing.Pool` are, or starts right now.
    """
    require_count("workers", count, least=1)
    if count == 1:
        return run
    process = multiprocessing.current_process()
    if process.daemon:
        raise UsageError("a daemon process cannot start workers; use one worker")
    if getattr(process, "_inheriting", False):
        raise UsageError("workers must be started under if __name__ == '__main__' in a script")
    pool = ProcessPool(count)
    _pools.get().append(pool)
    return replace(run, threads=run.threads or 1, pool=pool)


def stop_workers_at_end(verb: Callable[P, R]) -> Callable[P, R]:
    """The verb, with the processes that it starts ended when it returns or fails."""

    @wraps(verb)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        pools: list[ProcessPool] = []
        token = _pools.set(pools)
        try:
            return verb(*args, **kwargs)
        finally:
            _pools.reset(token)
            for pool in pools:
                pool.stop()

    return run


def _start_worker() -> Worker:
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(1, context, initializer=ignore_interrupts)
    return Worker(executor, executor.submit(_answer))


def _answer() -> bool:
    return True


@contextmanager
def _set_one_thread() -> Iterator[None]:
    """Processes that start within the block compute on one thread each, unless the user says otherwise."""
    added = [name for name in _ONE_THREAD if name not in os.environ]
    os.environ.update(dict.fromkeys(added, "1"))
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


_opened: dict[int, Any] = {}
"""The jobs that this process has opened, by number."""


def _run_part(job: SharedJob, closed: Sequence[int], part: Any) -> Any:
    """The result of a part, or the error; in a worker."""
    for old in closed:
        _opened.pop(old, None)
    try:
        if job.number not in _opened:
            content = Path(job.path).read_bytes()
            if hashlib.sha256(content).digest() != job.digest:
                raise PtqError(f"{job.path}: changed since this run has written it; run again")
            _opened[job.number] = ForkingPickler.loads(content).open()
        return part.run(_opened[job.number])
    except PtqError as error:
        return error
    except Exception as error:  # an internal error: the parent reports it
        return RuntimeError(f"in a worker: {type(error).__name__}: {error}")
