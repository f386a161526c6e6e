"""A head of Ray as a cluster, by its client."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from ptq.core.errors import UsageError, shorten_message
from ptq.core.remote import redact
from ptq.data.workers.cluster_adapters import (
    CONNECT_SECONDS,
    RETRIES,
    Submit,
    build_missing_package_error,
    build_no_answer_error,
)

_PAUSE = 1.0
"""Seconds before a head that has refused is asked again."""
_TRIES = 3
"""How often a head is asked, at least, that starts no server for this client: that process hangs now and then.

Ray gives up on it after 30 s: so did 3 of 48 connections on two cores, by Ray 2.49 and 2.60.
"""


class RayAdapter:
    """A head of Ray, by its client."""

    def __init__(self, address: str) -> None:
        """Connect; raise UsageError if the package is missing, or nobody lets this process in."""
        try:
            import ray
        except ImportError as error:
            raise build_missing_package_error("ray", address) from error
        self._ray: Any = ray
        self._connection: Any = _connect(ray.init, address)

    def count_slots(self) -> Mapping[str, int]:
        """The processors of all nodes, under one name."""
        return {"": max(1, int(self._ray.cluster_resources().get("CPU", 1)))}

    def submit_to(self, worker: str) -> Submit:
        """Starts a function on any node."""
        remote: dict[Any, Any] = {}

        def submit(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
            if function not in remote:
                remote[function] = self._ray.remote(max_retries=RETRIES)(function)
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


def _connect(init: Callable[[str], Any], address: str) -> Any:
    end, failed = time.monotonic() + CONNECT_SECONDS, 0
    while True:
        try:
            return init(address)
        except (
            ConnectionAbortedError
        ) as error:  # the head answers, but its server for this client did not start
            failed += 1
            if failed >= _TRIES and time.monotonic() > end:
                raise UsageError(
                    f"cluster {redact(address)}: the head started no server for this client in {failed} tries; see "
                    "ray_client_server.err among its logs, and restart it",
                    "cluster",
                ) from error
        except (ConnectionError, RuntimeError) as error:  # a head that starts refuses at once
            if time.monotonic() > end:
                reason = f" ({redact(shorten_message(error))})"
                raise build_no_answer_error(address, CONNECT_SECONDS, reason) from error
        time.sleep(_PAUSE)


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
