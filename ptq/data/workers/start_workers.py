"""Workers of a verb: they start with it, serve all its stages, and end with it."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

from ptq.core.errors import UsageError
from ptq.core.option_checks import require_count
from ptq.core.remote import as_url
from ptq.core.run_options import RunOptions
from ptq.data.places import expand_braces, has_pattern
from ptq.data.workers.cluster_adapters import Cluster
from ptq.data.workers.cluster_pool import ClusterPool, open_cluster
from ptq.data.workers.worker_pool import ProcessPool

P = ParamSpec("P")
R = TypeVar("R")

_pools = ContextVar[list[ProcessPool | ClusterPool]]("pools")


def start_workers(
    run: RunOptions, count: int, cluster: Cluster | None, *, same_maker: bool = True
) -> RunOptions:
    """The options with a pool of ``count`` processes with this one, or of the workers of a cluster.

    They are unchanged for one process and no cluster. Only a verb with `stop_workers_at_end` may call it. Each
    process runs models on one thread unless the options name another number.

    Args:
        run: How the job runs.
        count: Number of processes.
        cluster: Workers elsewhere.
        same_maker: Whether these must have the versions and the kind of processor of this process.

    Raises:
        UsageError: This process is a daemon, as those of `multiprocessing.Pool` are, or starts right now, or its
            script is no file. Or the cluster does not answer.
    """
    count = require_count("workers", count, least=1)
    pool: ProcessPool | ClusterPool
    if cluster is not None:
        if count != 1:
            raise UsageError("a cluster has its own workers; leave workers out", "cluster")
        pool = open_cluster(cluster, threads=run.threads or 1, same_maker=same_maker)
    elif count == 1:
        return run
    else:
        process = multiprocessing.current_process()
        if process.daemon:
            raise UsageError("a daemon process cannot start workers; use one worker")
        if getattr(process, "_inheriting", False):
            raise UsageError("workers must be started under if __name__ == '__main__' in a script")
        if _has_no_script_file():
            raise UsageError(
                "workers cannot load a script from standard input; write it to a file, or use one worker"
            )
        pool = ProcessPool(count)
    _pools.get().append(pool)
    return replace(run, threads=run.threads or 1, pool=pool)


def _has_no_script_file() -> bool:
    """Whether a new process would look for a script that is no file, such as ``<stdin>``."""
    main = sys.modules["__main__"]
    path = getattr(main, "__file__", None)
    return path is not None and main.__spec__ is None and not Path(path).exists()


def stop_workers_at_end(verb: Callable[P, R]) -> Callable[P, R]:
    """The verb, with the processes that it starts ended when it returns or fails."""

    @wraps(verb)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        pools: list[ProcessPool | ClusterPool] = []
        token = _pools.set(pools)
        try:
            return verb(*args, **kwargs)
        finally:
            _pools.reset(token)
            for pool in pools:
                pool.stop()

    return run


Data = TypeVar("Data")


def resolve_data(data: Data, cluster: Cluster | None) -> Data | str:
    """The data as the workers of a cluster open them: paths from the root, as their current folder is another.

    So are patterns and braces. Without a cluster, and of what is no path, the data are as given.
    """
    if cluster is None or not isinstance(data, (str, os.PathLike)):
        return data
    text = os.fspath(cast("str | os.PathLike[str]", data))
    if os.path.exists(text):
        return str(Path(text).resolve())
    names_paths = has_pattern(text) or expand_braces(text) != [text]
    return os.path.abspath(text) if names_paths and as_url(text) is None else text
