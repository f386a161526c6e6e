"""Waiting for a cluster that has no workers at the moment."""

from __future__ import annotations

import time

from ptq.core.errors import PtqError
from ptq.data.workers.pool import Pool

_SECONDS_WITHOUT_WORKERS, _PAUSE_SECONDS = 30.0, 0.05
"""How long a cluster may have no workers, and after how long it is asked again."""


def await_worker(pool: Pool) -> None:
    """Wait until a cluster has a worker.

    Raises:
        PtqError: It had none for too long.
    """
    end = time.monotonic() + _SECONDS_WITHOUT_WORKERS
    time.sleep(_PAUSE_SECONDS)
    while not pool.ready():
        pool.check()
        if time.monotonic() > end:
            raise PtqError(
                f"the cluster had no workers for {_SECONDS_WITHOUT_WORKERS:g} s; start some, and run again"
            )
        time.sleep(_PAUSE_SECONDS)
