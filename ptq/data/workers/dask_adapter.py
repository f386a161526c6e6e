"""A scheduler of Dask as a cluster, by its client."""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from ssl import SSLError
from typing import Any

from ptq.core.errors import PtqError, UsageError
from ptq.core.remote import redact
from ptq.data.workers.cluster_adapters import (
    CONNECT_SECONDS,
    RETRIES,
    Submit,
    build_missing_package_error,
    build_no_answer_error,
)
from ptq.data.workers.run_part import can_run_parts, forget_run

_SILENT_SECONDS = 60
"""How long a scheduler that has answered before may leave a question unanswered; it is asked every few seconds."""
_CLOSE_SECONDS = 10
"""How long workers may take to free what they keep of a run; else they free it with their next run."""
_MIN_BYTES_PER_SECOND = 2**23
"""A job that reaches all workers of Dask more slowly counts as not taken."""

_MISSING_MODULE = re.compile(r"No module named \W*([\w.]+)")
"""How Python says that a package is missing; Dask gives its text."""


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


def _build_certificate_error(address: str, error: Exception) -> UsageError:
    """Dask has no certificates for an address, or cannot use them; without any it raises TypeError."""
    fault = {TypeError: "no certificate is set", FileNotFoundError: "a file does not exist"}.get(
        type(error), "its scheduler or Dask refuses the certificates"
    )
    return UsageError(
        f"cluster {redact(address)}: {fault}; set Dask's distributed.comm.tls.ca-file, client.cert and client.key "
        "(docs/cluster.md)",
        "cluster",
    )


class DaskAdapter:
    """A scheduler of Dask. Each worker gets parts of its own, so that it opens a job once."""

    def __init__(self, address: str) -> None:
        """Connect; raise UsageError if a package or a certificate is missing, or nobody answers."""
        try:
            from distributed import Client
            from distributed.comm.core import FatalCommClosedError
        except ImportError as error:
            raise build_missing_package_error("dask", address) from error
        try:
            with _hold_garbage():
                self._client: Any = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (TypeError, FileNotFoundError, SSLError, FatalCommClosedError) as error:
            if not address.startswith("tls://"):
                raise
            raise _build_certificate_error(address, error) from error
        except (OSError, TimeoutError) as error:
            raise build_no_answer_error(address, CONNECT_SECONDS) from error
        self._address, self._is_silent = redact(address), False
        try:
            self._client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError as error:
            self._client.close()
            raise UsageError(
                f"cluster {redact(address)} has no workers; start some", "cluster"
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
            answers = self._run_on_all(CONNECT_SECONDS, can_run_parts, on_error="return")
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
            pure=False, retries=RETRIES, workers=[worker], allow_other_workers=True
        )
        submit: Submit = executor.submit
        return submit

    def send(self, content: bytes) -> Any:
        """Its copy on each worker; raise an error if one of them does not take it."""
        started, most = time.monotonic(), _SILENT_SECONDS + len(content) / _MIN_BYTES_PER_SECOND
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
