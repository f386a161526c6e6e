"""Processes of this machine that run parts of the samples, warm over a whole run, beside this one.

They start only after this process has worked for about as long as they need to start, and it works on meanwhile. So
a short run starts none. Each is an executor of its own, and runs one job after another. A job is pickled once, into a
file, and a process opens it once.
"""

from __future__ import annotations

import gc
import importlib
import logging
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ptq.core.errors import PtqError, shorten_message
from ptq.core.lazy_modules import install_and_call
from ptq.core.wording import plural
from ptq.data.workers.interrupts import hold_interrupts, start_in_worker
from ptq.data.workers.job_content import digest_pieces, pack_job
from ptq.data.workers.run_part import SharedJob, run_part

ALONE_SECONDS = 2.0
"""Processor time after which a run starts its processes: about what one needs to start."""
_SURE = 4
"""How many times as long as that the expected work must be to start them before. It is estimated from the time of one
sample in one stage, up to twice too long."""
ENDED = (
    "a worker process ended early; use fewer workers if memory is short, and start them under "
    "if __name__ == '__main__' in a script"
)
_ONE_THREAD = ("PTQ_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_COUNTING_MODULES = ("scipy.sparse",)
"""What counts values, which this process may not have loaded yet (`ptq.observers.key_counter`)."""
_LOG = logging.getLogger("ptq")


@dataclass(eq=False)
class WorkerProcess:
    """One process.

    Attributes:
        slots: How many parts it runs at once.
    """

    _executor: ProcessPoolExecutor
    _started: Future[bool]
    _open_jobs: set[int]
    _futures: list[Future[Any]] = field(default_factory=list)
    slots: int = 1

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

    def submit(self, job: SharedJob, part: bytes) -> Future[Any]:
        """Run a part of a job; the result raises `BrokenProcessPool` if the process has ended."""
        try:
            future = self._executor.submit(run_part, job, tuple(self._open_jobs), part)
        except BrokenProcessPool as error:
            future = Future()
            future.set_exception(error)
        self._futures.append(future)
        return future

    def stop(self) -> None:
        """End the process, whatever it does."""
        for process in list((self._executor._processes or {}).values()):
            process.terminate()
        self._executor.shutdown(cancel_futures=True)


class ProcessPool:
    """Processes for a run; this process is one of them, so ``count`` − 1 are started.

    Attributes:
        count: The number of processes.
        works_here: This process runs parts too.
        most_seconds: For each sample, in the slowest stage so far; 0 before.
    """

    works_here = True

    def __init__(self, count: int) -> None:
        """Start nothing yet."""
        self.count = count
        self.most_seconds = 0.0
        self._began, self._jobs, self._runs = time.process_time(), 0, 0
        self._open_jobs: set[int] = set()
        self._workers: list[WorkerProcess] | None = None
        self._folder = ""

    def ready(self) -> Sequence[WorkerProcess]:
        """The processes that have started and did not end. It starts them when it is time to.

        Raises:
            PtqError: One ended while it started.
        """
        if self._workers is None:
            if time.process_time() - self._began < ALONE_SECONDS:
                return ()
            self._workers = self._start()
        return self.started

    @property
    def started(self) -> Sequence[WorkerProcess]:
        """The same, but none is started for this.

        Raises:
            PtqError: One ended while it started.
        """
        return [worker for worker in self._workers or () if worker.is_ready]

    def expect(self, runs: int) -> None:
        """Take the number of runs of one sample to come, in all stages."""
        self._runs = runs

    def prepare(self, seconds: float, samples: int) -> None:
        """Start the processes now if long work is expected; see `ptq.data.workers.pool.Pool.prepare`."""
        self.most_seconds = max(seconds, self.most_seconds)
        expected = seconds * max(samples, self._runs)
        if self._workers is None and expected > _SURE * ALONE_SECONDS:
            self._workers = self._start()

    def _start(self) -> list[WorkerProcess]:
        folder = self._make_folder()
        with hold_interrupts(), _set_one_thread():
            workers = [_start_worker(self._open_jobs, folder) for _ in range(self.count - 1)]
        _LOG.info("started %s", plural(self.count - 1, "worker"))
        return workers

    def _make_folder(self) -> str:
        """The folder of the jobs, and of what the processes keep for a while."""
        try:
            self._folder = self._folder or tempfile.mkdtemp(prefix="ptq-")
        except OSError as error:
            raise PtqError(
                f"there is no folder for temporary files: {error.strerror}; name one in TMPDIR"
            ) from error
        return self._folder

    def check(self) -> None:
        """Nothing: a process that ends breaks its own futures."""

    def cancel(self, future: Future[Any]) -> None:
        """Give up a part, unless it runs."""
        future.cancel()

    def receive(self, worker: WorkerProcess, future: Future[Any]) -> Any:
        """The message of a part that is done; None if its process has ended. The run goes on without that one."""
        try:
            return future.result()
        except BrokenProcessPool:
            if self._workers and worker in self._workers:
                _LOG.warning("a worker process ended early; its samples run again in another one")
            self._workers = [one for one in self._workers or () if one is not worker]
            worker.stop()
            return None

    def share(self, job: Any) -> SharedJob:
        """Write a job for the other processes.

        Raises:
            PtqError: The file cannot be written.
        """
        self._jobs += 1
        folder = self._make_folder()
        path = Path(folder, f"{self._jobs}.job")
        try:
            pieces = pack_job(job)
            with open(path, "wb") as file:
                file.writelines(pieces)
        except OSError as error:
            raise PtqError(
                f"{path}: cannot write what worker processes need ({shorten_message(error)}); make room, or use one "
                "worker"
            ) from error
        self._open_jobs.add(self._jobs)
        return SharedJob(folder, self._jobs, digest_pieces(pieces), str(path))

    def close_job(self, job: SharedJob) -> None:
        """Free a job in all processes, as soon as each gets its next part."""
        Path(job.path).unlink(missing_ok=True)
        self._open_jobs.discard(job.number)

    def stop(self) -> None:
        """End all processes, and remove the files of the jobs and of the processes."""
        for worker in self._workers or ():
            worker.stop()
        self._workers = []
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)


def _start_worker(open_jobs: set[int], folder: str) -> WorkerProcess:
    context = multiprocessing.get_context("spawn")
    first = start_in_worker.__module__, start_in_worker.__name__, folder
    executor = ProcessPoolExecutor(1, context, initializer=install_and_call, initargs=first)
    loaded = [name for name in list(sys.modules) if name.startswith("ptq.")]
    started = executor.submit(_load_modules, [*loaded, *_COUNTING_MODULES])
    # only the process writes here: while this end is open too, the rest of a message that it dies in is waited for
    executor._result_queue._writer.close()  # type: ignore[attr-defined]
    return WorkerProcess(executor, started, open_jobs)


def _load_modules(names: Sequence[str]) -> bool:
    """Load what the parent has loaded, so that the first part starts at once."""
    gc.disable()  # modules stay; searching them for garbage takes a tenth of the time
    for name in names:
        importlib.import_module(name)
    gc.freeze()
    gc.enable()
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
