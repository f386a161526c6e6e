"""Kinds of clusters: a scheduler of Dask, one of Ray, or any executor. Each is a thin adapter; none is a cluster.

The content of a job is sent once: Dask and Ray keep it on each worker, and each part refers to it. Other executors
get it with each part.
"""

from __future__ import annotations

import gc
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from ptq.core.errors import PtqError, UsageError, short_message
from ptq.core.remote import show
from ptq.data.workers.run_part import can_run_parts, forget_run

_SECONDS = 30
"""How long a scheduler or a head, and then its workers, may take to answer at first."""
_SILENT_SECONDS = 60
"""How long a scheduler that has answered before may leave a question unanswered; it is asked every few seconds."""
_CLOSE_SECONDS = 10
"""How long workers may take to free what they keep of a run; else they free it with their next run."""
_LEAST_BYTES_PER_SECOND = 2**23
"""A job that reaches all workers of Dask more slowly counts as not taken."""
_PAUSE = 1.0
"""Seconds before a head of Ray that has refused is asked again."""
_RETRIES = 3
"""How often a part runs again after its worker ended."""

_MISSING_MODULE = re.compile(r"No module named \W*([\w.]+)")
"""How Python says that a package is missing; Dask gives its text."""

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


@contextmanager
def _hold_garbage() -> Iterator[None]:
    """Collect no garbage within the block.

    A client of Dask that could not connect is closed when it is collected. It then waits for a lock. Where a new
    client of the same thread holds that lock while it starts, both wait for ever.
    """
    gc.collect()
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()


class DaskAdapter:
    """A scheduler of Dask. Each worker gets parts of its own, so that it opens a job once."""

    def __init__(self, address: str) -> None:
        """Connect; raise UsageError if the package is missing, or nobody answers."""
        try:
            from distributed import Client
        except ImportError as error:
            raise _missing_package("dask", address) from error
        try:
            with _hold_garbage():
                self._client: Any = Client(address, timeout=_SECONDS, set_as_default=False)
        except (OSError, TimeoutError) as error:
            raise _no_answer(address) from error
        self._address, self._is_silent = show(address), False
        try:
            self._client.wait_for_workers(1, timeout=_SECONDS)
        except TimeoutError as error:
            self._client.close()
            raise UsageError(
                f"cluster {show(address)} has no workers; start some", "cluster"
            ) from error
        try:
            self._require_packages()
        except BaseException:
            self._client.close()
            raise

    def _require_packages(self) -> None:
        """Raise UsageError if a worker lacks a package: Dask ends a worker that cannot load a part."""
        answers: Mapping[str, Any] = {}
        with suppress(TimeoutError):
            answers = self._run_on_all(_SECONDS, can_run_parts, on_error="return")
        for worker, answer in answers.items():
            missing = _MISSING_MODULE.search(str(answer))
            if missing is not None:
                raise UsageError(
                    f"cluster {self._address}: worker {worker} has no module {missing[1]}; pip install "
                    "onnx-ptq there",
                    "cluster",
                )

    def count_slots(self) -> Mapping[str, int]:
        """The threads of each worker."""
        self.check()
        ask = self._client.scheduler.ncores
        try:
            found: Mapping[str, int] = self._client.sync(ask, callback_timeout=_SILENT_SECONDS)
        except TimeoutError as error:
            self._is_silent = True
            raise PtqError(
                f"cluster {self._address}: the scheduler has not answered for {_SILENT_SECONDS} s; see its log, and "
                "run again (a checkpoint continues)"
            ) from error
        return found

    def submit_to(self, worker: str) -> Submit:
        """Starts a function on a worker; others take it if that one ends."""
        executor = self._client.get_executor(
            pure=False, retries=_RETRIES, workers=[worker], allow_other_workers=True
        )
        submit: Submit = executor.submit
        return submit

    def send(self, content: bytes) -> Any:
        """Its copy on each worker; raise an error if one of them does not take it."""
        started, most = time.monotonic(), _SILENT_SECONDS + len(content) / _LEAST_BYTES_PER_SECOND
        try:
            return self._client.sync(
                self._client._scatter, content, broadcast=True, hash=False, callback_timeout=most
            )
        except TimeoutError as error:
            if time.monotonic() - started < most:  # there is no worker
                raise
            self._is_silent = True
            raise PtqError(
                f"cluster {self._address}: a worker has not taken its job for {most:.0f} s; end that worker (the "
                "scheduler lists them), and run again (a checkpoint continues)"
            ) from error

    def check(self) -> None:
        """Raise an error if the scheduler ended."""
        if self._client.status != "running":
            raise PtqError(
                f"cluster {self._address}: the scheduler ended; start it, and run again (a checkpoint continues)"
            )

    def close(self, run: str) -> None:
        """Free what the workers keep, and end the connection."""
        try:
            if self._client.status == "running" and not self._is_silent:
                self._run_on_all(_CLOSE_SECONDS, forget_run, run, on_error="ignore")
        finally:
            self._client.close()

    def _run_on_all(self, most: float, function: Callable[..., Any], *args: Any, **how: Any) -> Any:
        """`Client.run` of Dask with a limit of time: a worker that is stopped never answers."""
        return self._client.sync(self._client._run, function, *args, callback_timeout=most, **how)


class RayAdapter:
    """A head of Ray, by its client."""

    def __init__(self, address: str) -> None:
        """Connect; raise UsageError if the package is missing, or nobody answers."""
        try:
            import ray
        except ImportError as error:
            raise _missing_package("ray", address) from error
        self._ray: Any = ray
        self._connection: Any
        end = time.monotonic() + _SECONDS
        while True:
            try:
                self._connection = ray.init(address)
                break
            except (ConnectionError, RuntimeError) as error:  # a head that starts refuses at once
                if time.monotonic() > end:
                    raise _no_answer(address, f" ({show(short_message(error))})") from error
                time.sleep(_PAUSE)

    def count_slots(self) -> Mapping[str, int]:
        """The processors of all nodes, under one name."""
        return {"": max(1, int(self._ray.cluster_resources().get("CPU", 1)))}

    def submit_to(self, worker: str) -> Submit:
        """Starts a function on any node."""
        remote: dict[Any, Any] = {}

        def submit(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
            if function not in remote:
                remote[function] = self._ray.remote(max_retries=_RETRIES)(function)
            return _copy_future(remote[function].remote(*arguments).future())

        return submit

    def send(self, content: bytes) -> Any:
        """Its copy in the store of Ray."""
        return self._ray.put(content)

    def check(self) -> None:
        """Nothing is known."""

    def close(self, run: str) -> None:
        """End the connection."""
        self._connection.disconnect()


def _copy_future(original: Future[Any]) -> Future[Any]:
    """A future with the same result, which may be cancelled: Ray sets the result of one that is cancelled too."""
    copy = Future[Any]()

    def finish(done: Future[Any]) -> None:
        if not copy.set_running_or_notify_cancel():
            return
        error = done.exception()
        if error is None:
            copy.set_result(done.result())
        else:
            copy.set_exception(error)

    original.add_done_callback(finish)
    return copy


def _missing_package(extra: str, address: str) -> UsageError:
    return UsageError(
        f'cluster {show(address)} needs a package that is not installed; pip install "onnx-ptq[{extra}]"',
        "cluster",
    )


def _no_answer(address: str, reason: str = "") -> UsageError:
    return UsageError(
        f"cluster {show(address)} does not answer within {_SECONDS} s{reason}; check the address, and that its "
        "scheduler runs",
        "cluster",
    )
