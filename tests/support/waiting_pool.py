"""Worker processes that start without delay, take part in short stages, and are waited for."""

from __future__ import annotations

from typing import Any

import pytest

from ptq.data.workers import sharing_gain, worker_pool
from ptq.data.workers.sample_map import SampleMap


def start_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start processes with the first stage, which waits for them."""
    monkeypatch.setattr(worker_pool, "ALONE_SECONDS", -1)
    monkeypatch.setattr(sharing_gain, "MIN_GAIN", -1)
    monkeypatch.setattr(sharing_gain, "_MOVING_GAIN", 0)
    # while a worker opens a job, this process might run all of a short stage
    monkeypatch.setattr(SampleMap, "_open_on", lambda here, worker: None)
    ready = worker_pool.ProcessPool.ready

    def wait(pool: worker_pool.ProcessPool) -> Any:
        if pool._workers is None:
            ready(pool)
        for worker in pool._workers or ():
            worker._started.exception()
        return ready(pool)

    monkeypatch.setattr(worker_pool.ProcessPool, "ready", wait)
