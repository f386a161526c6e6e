"""The workers of a cluster, for one run: all samples run on them, none in this process."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from ptq.core.errors import PtqError, UsageError, shorten_message
from ptq.core.record import Record
from ptq.core.remote import redact
from ptq.data.workers.cluster_adapters import Adapter, Cluster, ExecutorAdapter, Submit
from ptq.data.workers.dask_adapter import DaskAdapter
from ptq.data.workers.job_content import digest_pieces, pack_job
from ptq.data.workers.ray_adapter import RayAdapter
from ptq.data.workers.run_part import SharedJob, run_part
from ptq.model.machine.maker import describe_maker

_REFRESH_SECONDS = 2.0
"""After how long a cluster is asked for its workers again."""
_RESENT = 4
"""How often a part may lose its job with the workers that kept it."""
_LOST_SECONDS = 30.0
"""After how long a part of a worker that left is sent again: a scheduler may forget it."""
_PLACE = "on a worker: "
_ADAPTERS: Mapping[str, Callable[[str], Adapter]] = {
    "tcp": DaskAdapter,
    "tls": DaskAdapter,
    "ray": RayAdapter,
}
"""By the kind of an address."""


@dataclass(eq=False)
class ClusterWorker:
    """A worker of a cluster.

    Attributes:
        slots: How many parts it runs at once.
    """

    slots: int
    _submit: Submit
    _pool: ClusterPool
    _futures: list[Future[Any]] = field(default_factory=list)

    @property
    def waiting(self) -> int:
        """How many parts it has that are not done."""
        self._futures = [future for future in self._futures if not future.done()]
        return len(self._futures)

    def submit(self, job: SharedJob, part: bytes) -> Future[Any]:
        """Start a part of a job."""
        future = self._pool.start(self, self._submit, job, part)
        self._futures.append(future)
        return future


@dataclass(eq=False)
class _StartedPart:
    """A part that a worker has.

    Attributes:
        worker: The worker.
        job: The job.
        part: The part, pickled.
        sent: What refers to the content of the job.
        missed: When the worker was first found to have left; 0 while it is there.
    """

    worker: ClusterWorker
    job: SharedJob
    part: bytes
    sent: Any
    missed: float = 0.0


class ClusterPool:
    """The workers of a cluster, for one run.

    Attributes:
        count: How many parts run at once.
        works_here: This process runs no parts.
        most_seconds: Nothing that this process measures.
    """

    works_here = False
    most_seconds = 0.0

    def __init__(
        self, name: str, adapter: Adapter, *, threads: int | None, maker: Record | None
    ) -> None:
        """Take a cluster that is connected.

        Args:
            name: What messages call it.
            adapter: The cluster.
            threads: The most threads of the kernels of a part; None for no limit.
            maker: What all workers must have; None for anything.
        """
        self._name, self._adapter, self._threads, self._maker = name, adapter, threads, maker
        self._run, self._jobs = uuid.uuid4().hex, 0
        self._contents: dict[int, tuple[bytes, Any]] = {}
        self._started: dict[Future[Any], _StartedPart] = {}
        self._workers: dict[str, ClusterWorker] = {}
        self._due = 0.0
        self.count = sum(worker.slots for worker in self.ready())

    def expect(self, runs: int) -> None:
        """Nothing: the workers are there."""

    def prepare(self, seconds: float, samples: int) -> None:
        """Nothing: the workers are there."""

    def ready(self) -> Sequence[ClusterWorker]:
        """The workers that the cluster has now."""
        if time.monotonic() >= self._due:
            with self._name_failures():
                found = self._adapter.count_slots()
                self._due = time.monotonic() + _REFRESH_SECONDS
                for name in self._workers.keys() - found.keys():
                    del self._workers[name]
                for name in found.keys() - self._workers.keys():
                    submit = self._adapter.submit_to(name)
                    self._workers[name] = ClusterWorker(found[name], submit, self)
        return [self._workers[name] for name in sorted(self._workers)]

    def share(self, job: Any) -> SharedJob:
        """Send a job to all workers."""
        content = b"".join(pieces := pack_job(job))
        self._jobs += 1
        with self._name_failures():
            self._contents[self._jobs] = content, self._adapter.send(content)
        return SharedJob(
            self._run, self._jobs, digest_pieces(pieces),
            place=_PLACE, maker=self._maker, threads=self._threads,
        )  # fmt: skip

    def close_job(self, job: SharedJob) -> None:
        """Free a job on all workers, as soon as each gets its next part."""
        self._contents.pop(job.number, None)

    def start(
        self, worker: ClusterWorker, submit: Submit, job: SharedJob, part: bytes
    ) -> Future[Any]:
        """Start a part of a job on a worker."""
        sent = self._contents[job.number][1]
        with self._name_failures():
            future = submit(run_part, job, tuple(self._contents), part, sent)
        self._started[future] = _StartedPart(worker, job, part, sent)
        return future

    def check(self) -> None:
        """Raise an error if the cluster is gone; give up parts of workers that left, so that others get them."""
        with self._name_failures():
            self._adapter.check()
        present = self.ready()
        for future, started in list(self._started.items()) if present else ():
            if started.worker in present or future.done():
                started.missed = 0.0
            elif not started.missed:
                started.missed = time.monotonic()
            elif time.monotonic() - started.missed > _LOST_SECONDS:
                future.cancel()

    def cancel(self, future: Future[Any]) -> None:
        """Give up a part, unless it runs."""
        future.cancel()
        self._started.pop(future, None)

    def receive(self, worker: ClusterWorker, future: Future[Any]) -> Any:
        """The message of a part that is done. A part whose job was lost with a worker gets it sent again."""
        for _ in range(_RESENT):
            started = self._started.pop(future)
            try:
                with self._name_failures():
                    return future.result()
            except CancelledError:
                self.check()
            content, latest = self._contents[started.job.number]
            if latest is started.sent:
                with self._name_failures():
                    self._contents[started.job.number] = content, self._adapter.send(content)
            future = next(iter(self.ready()), worker).submit(started.job, started.part)
            while not future.done():
                if not wait([future], timeout=1.0).done:
                    self.check()
        raise PtqError(
            f"cluster {self._name}: lost its workers again and again; their memory may be short: see its logs"
        )

    def stop(self) -> None:
        """Give up what has not started, and end the connection; the cluster stays."""
        self._contents.clear()
        for future in tuple(self._started):
            self.cancel(future)
        with suppress(
            Exception
        ):  # the run has ended; a cluster that is gone is no error of its own
            self._adapter.close(self._run)

    @contextmanager
    def _name_failures(self) -> Iterator[None]:
        """Errors of schedulers and of their connections have no common class: they become one of ptq."""
        try:
            yield
        except (PtqError, CancelledError):
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {shorten_message(error)}"
            raise PtqError(
                f"cluster {self._name}: failed ({reason}); see its logs, and run again"
            ) from error


def _has_valid_port(address: str) -> bool:
    """Whether the port of an address, if it has one, is a number up to 65535."""
    try:
        urlsplit(address).port  # noqa: B018 # raises
    except ValueError:
        return False
    return True


def open_cluster(cluster: Cluster, *, threads: int | None, same_maker: bool) -> ClusterPool:
    """Connect to a cluster.

    Args:
        cluster: The cluster.
        threads: The most threads of the kernels of a part; None for no limit.
        same_maker: Whether all workers must have the versions and the kind of processor of this process.

    Raises:
        UsageError: The address is of no known kind, a package is missing, or nobody answers.
        PtqError: The cluster fails.
    """
    maker = describe_maker() if same_maker else None
    if isinstance(cluster, Executor):
        return ClusterPool("of an executor", ExecutorAdapter(cluster), threads=threads, maker=maker)
    scheme = cluster.partition("://")[0] if isinstance(cluster, str) else ""
    if scheme not in _ADAPTERS or not _has_valid_port(str(cluster)):
        shown = redact(cluster) if isinstance(cluster, str) else repr(cluster)
        raise UsageError(
            f"cluster {shown} is not an address; write tcp://host:port of a Dask scheduler, or ray://host:port",
            "cluster",
        )
    try:
        adapter = _ADAPTERS[scheme](cluster)
    except PtqError:
        raise
    except Exception as error:  # each library has its own for a bad address
        raise UsageError(
            f"cluster {redact(cluster)} cannot be used ({type(error).__name__}); write tcp://host:port of a Dask "
            "scheduler, or ray://host:port",
            "cluster",
        ) from error
    try:
        return ClusterPool(redact(cluster), adapter, threads=threads, maker=maker)
    except BaseException:
        with suppress(Exception):
            adapter.close("")
        raise
