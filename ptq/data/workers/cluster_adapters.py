"""What a kind of cluster is: a scheduler of Dask, a head of Ray, or any executor, which is here.

Each kind is a thin adapter; none is a cluster.

The content of a job is sent once: Dask and Ray keep it on each worker, and each part refers to it. Other executors
get it with each part.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from typing import Any, Protocol

from ptq.core.errors import UsageError
from ptq.core.remote import redact
from ptq.data.workers.run_part import forget_run

CONNECT_SECONDS = 30
"""How long a scheduler or a head, and then its workers, may take to answer at first."""
RETRIES = 3
"""How often a part runs again after its worker ended."""

Cluster = str | Executor
"""Address of a scheduler, ``tcp://host:port`` or ``tls://`` of Dask or ``ray://host:port``; or an executor."""

Submit = Callable[..., Future[Any]]
"""Starts a function with arguments."""


class Adapter(Protocol):
    """A cluster: what differs between its kinds."""

    def count_slots(self) -> Mapping[str, int]:
        """How many parts each worker runs at once, by its name."""
        ...

    def submit_to(self, worker: str) -> Submit:
        """What starts a function on a worker."""
        ...

    def send(self, content: bytes) -> Any:
        """What refers to a content that all workers get."""
        ...

    def check(self) -> None:
        """Raise an error if the cluster is gone."""
        ...

    def close(self, run: str) -> None:
        """Free what the workers keep of a run, and end the connection; the cluster stays."""
        ...


class ExecutorAdapter:
    """Any executor: its workers have no names, and get the content of a job with each part."""

    def __init__(self, executor: Executor) -> None:
        """Take the executor."""
        self._executor = executor
        self._count: int = getattr(executor, "_max_workers", None) or os.cpu_count() or 1

    def count_slots(self) -> Mapping[str, int]:
        """All under one name."""
        return {"": self._count}

    def submit_to(self, worker: str) -> Submit:
        """The executor's own."""
        return self._executor.submit

    def send(self, content: bytes) -> Any:
        """The content itself."""
        return content

    def check(self) -> None:
        """Nothing is known."""

    def close(self, run: str) -> None:
        """Free what threads of this process keep; other processes free it with their next run."""
        forget_run(run)


def build_missing_package_error(extra: str, address: str) -> UsageError:
    """A package of an extra is not installed."""
    return UsageError(
        f'cluster {redact(address)} needs a package that is not installed; pip install "onnx-ptq[{extra}]"',
        "cluster",
    )


def build_no_answer_error(address: str, seconds: float, reason: str = "") -> UsageError:
    """Nobody answers at an address in that time."""
    return UsageError(
        f"cluster {redact(address)} does not answer within {seconds:.0f} s{reason}; check the address, and that its "
        "scheduler runs",
        "cluster",
    )
