"""Clusters as workers: a scheduler of Dask, one of Ray, or any executor. Each is a thin adapter; none is a cluster.

The content of the model is sent once: Dask and Ray keep it on each worker, and each shard refers to it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any

from ptq.core.errors import PtqError, UsageError, short_message
from ptq.data.shard_map import Workers

_SECONDS = 30
"""How long a scheduler, and its first worker, may take to answer."""
_RETRIES = 3
"""How often a shard runs again after its worker ended."""

Cluster = str | Executor
"""Address of a scheduler, ``tcp://host:port`` or ``tls://`` of Dask or ``ray://host:port``; or an executor."""


@contextmanager
def start_cluster(cluster: Cluster, content: bytes) -> Iterator[Workers]:
    """Workers of a cluster; the connection ends with the block, the cluster stays.

    Args:
        cluster: The cluster.
        content: What all workers share.

    Raises:
        UsageError: The address is of no known kind, a package is missing, or nobody answers.
        PtqError: The cluster fails.
    """
    if isinstance(cluster, Executor):
        executor = cluster
        count = getattr(executor, "_max_workers", None) or os.cpu_count() or 1
        yield Workers(count, lambda run, job, shard: executor.submit(run, job, shard, content))
        return
    scheme = cluster.partition("://")[0]
    if scheme in ("tcp", "tls"):
        adapter = _start_dask(cluster, content)
    elif scheme == "ray":
        adapter = _start_ray(cluster, content)
    else:
        raise UsageError(
            f"cluster {cluster!r} is not an address; write tcp://host:port of a Dask scheduler, or ray://host:port",
            "cluster",
        )
    try:
        with adapter as workers:
            yield workers
    except (PtqError, KeyboardInterrupt, GeneratorExit):
        raise
    # Errors of schedulers and of their connections have no common class.
    except Exception as error:
        reason = f"{type(error).__name__}: {short_message(error)}"
        raise PtqError(
            f"cluster {cluster}: failed ({reason}); see its logs, and run again"
        ) from error


@contextmanager
def _start_dask(address: str, content: bytes) -> Iterator[Workers]:
    try:
        from distributed import Client
    except ImportError as error:
        raise _missing_package("dask", address) from error
    try:
        client = Client(address, timeout=_SECONDS, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise _no_answer(address) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=_SECONDS)
        except TimeoutError as error:
            raise UsageError(f"cluster {address} has no workers; start some", "cluster") from error
        executor = client.get_executor(pure=False, retries=_RETRIES)
        shared = client.scatter(content, broadcast=True)

        def check() -> None:
            if client.status != "running":
                raise PtqError(
                    f"cluster {address}: the scheduler ended; start it, and run again (a checkpoint continues)"
                )

        yield Workers(
            max(1, sum(client.nthreads().values())),
            lambda run, job, shard: executor.submit(run, job, shard, shared),
            check,
        )


@contextmanager
def _start_ray(address: str, content: bytes) -> Iterator[Workers]:
    try:
        import ray
    except ImportError as error:
        raise _missing_package("ray", address) from error
    try:
        connection = ray.init(address)
    except (ConnectionError, RuntimeError) as error:
        raise _no_answer(address) from error
    try:
        shared = ray.put(content)
        count = max(1, int(ray.cluster_resources().get("CPU", 1)))

        def submit(run: Any, job: Any, shard: Any) -> Any:
            running = ray.remote(max_retries=_RETRIES)(run).remote(job, shard, shared)
            return _copy_future(running.future())

        yield Workers(count, submit)
    finally:
        connection.disconnect()


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
        f'cluster {address} needs a package that is not installed; pip install "onnx-ptq[{extra}]"',
        "cluster",
    )


def _no_answer(address: str) -> UsageError:
    return UsageError(
        f"cluster {address} does not answer within {_SECONDS} s; check the address, and that its scheduler runs",
        "cluster",
    )
