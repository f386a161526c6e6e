"""The workers of a pool without this process, which has other work meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from ptq.core.errors import PtqError
from ptq.data.workers.pool import Worker
from ptq.data.workers.run_part import SharedJob
from ptq.data.workers.worker_pool import ENDED, ProcessPool


class IdleWorkers:
    """The processes of a run that have started. It starts none; see `ptq.data.workers.pool.Pool`.

    Attributes:
        count: The number of processes.
        works_here: Whether this process runs parts too: it runs only those that a worker cannot.
        most_seconds: 0: nothing is known of the samples.
    """

    works_here = False
    most_seconds = 0.0

    def __init__(self, pool: ProcessPool) -> None:
        """Start nothing."""
        self._pool, self.count = pool, len(pool.started)
        self._is_stopped = False

    def stop(self) -> None:
        """Let the map that runs on them end with an error, within a second."""
        self._is_stopped = True

    def expect(self, runs: int) -> None:
        """Nothing: the pool knows what is to come."""

    def prepare(self, seconds: float, samples: int) -> None:
        """Nothing: the processes have started."""

    def ready(self) -> Sequence[Worker]:
        """The processes that did not end.

        Raises:
            PtqError: All have ended, or they are needed.
        """
        self.check()
        if not (workers := self._pool.started):
            raise PtqError(ENDED)
        return workers

    def share(self, job: Any) -> SharedJob:
        """Write a job for the processes."""
        return self._pool.share(job)

    def close_job(self, job: SharedJob) -> None:
        """Free a job in all processes."""
        self._pool.close_job(job)

    def check(self) -> None:
        """Raise an error if they are needed for something else."""
        if self._is_stopped:
            raise PtqError("the workers are needed for another stage")

    def cancel(self, future: Future[Any]) -> None:
        """Give up a part, unless it runs."""
        self._pool.cancel(future)

    def receive(self, worker: Any, future: Future[Any]) -> Any:
        """The message of a part that is done; None if its process has ended."""
        return self._pool.receive(worker, future)
