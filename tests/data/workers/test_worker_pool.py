"""A worker process that dies is noticed, whatever it does; the process is real."""

from __future__ import annotations

import pickle
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from dying_job import DyingJob
from modules_job import ModulesJob

from ptq.data.workers import worker_pool
from ptq.data.workers.sample_parts import Part
from ptq.data.workers.worker_pool import ProcessPool, WorkerProcess

ENOUGH_SECONDS = 60


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProcessPool]:
    monkeypatch.setattr(worker_pool, "ALONE_SECONDS", -1)
    found = ProcessPool(2)
    yield found
    found.stop()


def _start(pool: ProcessPool) -> WorkerProcess:
    pool.ready()
    assert pool._workers is not None
    (worker,) = pool._workers
    assert worker._started.result(ENOUGH_SECONDS)
    return worker


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_process_that_dies_while_it_writes_a_result_gives_up_its_parts(
    pool: ProcessPool,
) -> None:
    worker, job = _start(pool), pool.share(DyingJob())
    part = pickle.dumps(Part(0, ()))
    futures = [worker.submit(job, part) for _ in range(3)]
    for future in futures:
        future.exception(ENOUGH_SECONDS)
        assert pool.receive(worker, future) is None
    assert pool.ready() == []


def test_a_process_has_loaded_what_counts_values_and_what_this_one_has(pool: ProcessPool) -> None:
    worker, job = _start(pool), pool.share(ModulesJob())
    future = worker.submit(job, pickle.dumps(Part((), 0)))
    future.exception(ENOUGH_SECONDS)
    (modules, searches_garbage, frozen), _ = pool.receive(worker, future)
    assert {"scipy.sparse", *(name for name in sys.modules if name.startswith("ptq."))} <= modules
    assert "sympy.core" not in modules  # as in the command's own process
    assert searches_garbage
    assert frozen > 1000


def test_temporary_files_of_a_process_are_removed_with_it(
    pool: ProcessPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    worker = _start(pool)
    future = worker._executor.submit(tempfile.mkdtemp)
    kept = Path(future.result(ENOUGH_SECONDS))
    assert kept.is_dir()
    assert tmp_path in kept.parents
    pool.stop()
    assert list(tmp_path.iterdir()) == []
