"""What runs parts of the samples elsewhere: processes of this machine, or a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from ptq.data.workers.run_part import SharedJob


class Worker(Protocol):
    """What runs parts elsewhere.

    Attributes:
        slots: How many parts it runs at once.
        waiting: How many parts it has that are not done.
    """

    @property
    def slots(self) -> int:
        """See the class."""
        ...

    @property
    def waiting(self) -> int:
        """See the class."""
        ...

    def submit(self, job: SharedJob, part: bytes) -> Future[Any]:
        """Start a part."""
        ...


class Pool(Protocol):
    """Workers of a run; see `ptq.data.workers.worker_pool` and `ptq.data.workers.cluster_pool`.

    Attributes:
        count: How many parts run at once, with this process if it works too.
        works_here: Whether this process runs parts too, and those again that a worker cannot run.
        most_seconds: For each sample, in the slowest stage so far; 0 before.
    """

    count: int
    works_here: bool
    most_seconds: float

    def expect(self, runs: int) -> None:
        """Take the number of runs of one sample to come, in all stages."""
        ...

    def prepare(self, seconds: float, samples: int) -> None:
        """Start workers if long work is expected: so many seconds for each sample left, or for each expected run."""
        ...

    def ready(self) -> Sequence[Worker]:
        """The workers that take parts now."""
        ...

    def share(self, job: Any) -> SharedJob:
        """Give a job to all workers."""
        ...

    def close_job(self, job: SharedJob) -> None:
        """Free a job on all workers."""
        ...

    def check(self) -> None:
        """Raise an error if the workers are gone; called every second that no part ends."""
        ...

    def cancel(self, future: Future[Any]) -> None:
        """Give up a part whose message nobody waits for."""
        ...

    def receive(self, worker: Any, future: Future[Any]) -> Any:
        """The message of a part that is done; None if its worker has ended and the part must run again here."""
        ...
