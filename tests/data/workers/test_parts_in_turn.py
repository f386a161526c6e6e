"""What this process does while others have parts: its own ones, and none more threads than it was given."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from ptq.core.run_options import DEFAULT_RUN, ExpectedStage
from ptq.data import Sample
from ptq.data.workers import worker_pool
from ptq.data.workers.run_part import SharedJob, run_part
from ptq.data.workers.sample_map import SampleMap
from ptq.data.workers.sample_parts import Part
from ptq.data.workers.worker_pool import ProcessPool
from ptq.kernels.thread_pool import get_thread_count, limit_threads, use_given_threads

SAMPLES = [Sample(str(k), {"x": np.full(1, k)}) for k in range(6)]
HERE = threading.get_ident()


@dataclass(frozen=True)
class NameJob:
    """Gives the name of the sample of each part, and where it ran."""

    def open(self) -> Callable[[Part], tuple[str, bool]]:
        return lambda part: (next(iter(part.samples)).name, threading.get_ident() == HERE)


class PatientWorker:
    """A thread that runs no part before this process has run all of its own."""

    slots, waiting = 1, 0

    def __init__(self, executor: ThreadPoolExecutor) -> None:
        self._executor, self.ran = executor, 0
        self.is_time = threading.Event()

    def submit(self, job: SharedJob, part: bytes) -> Future[Any]:
        def run() -> Any:
            assert self.is_time.wait(10)
            return run_part(job, (job.number,), part, None)

        return self._executor.submit(run)


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[PatientWorker]:
    monkeypatch.setattr(
        "ptq.data.workers.run_part._opened", {}
    )  # a worker process would end with it
    with ThreadPoolExecutor(1) as executor:
        found = PatientWorker(executor)
        yield found
        found.is_time.set()


class PatientPool(ProcessPool):
    """This process and a thread."""

    def __init__(self, worker: PatientWorker) -> None:
        super().__init__(2)
        self._patient = worker

    def ready(self) -> Sequence[Any]:
        return [self._patient]


def test_this_process_runs_its_own_parts_while_another_one_has_the_first(
    worker: PatientWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptq.data.workers.sharing_gain.MIN_GAIN", -1)
    pool, run_here = PatientPool(worker), SampleMap.run_here

    def count(self: Any, part: Part) -> Any:
        result = run_here(self, part)
        worker.ran += 1
        if worker.ran == 3:
            worker.is_time.set()
        return result

    monkeypatch.setattr(SampleMap, "run_here", count)
    # turns start with this process; the first part of all is its own
    found = [*SampleMap(NameJob(), replace(DEFAULT_RUN, pool=pool)).map(SAMPLES, in_turn=True)]
    pool.stop()
    assert found == [(sample.name, k % 2 == 0) for k, sample in enumerate(SAMPLES)]


def test_long_work_that_is_expected_starts_processes_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[object] = []
    monkeypatch.setattr(worker_pool, "_start_worker", lambda *_: started.append(0))
    for runs, samples, starts in (
        (0, 10, False),
        (10, 10, False),
        (1000, 10, True),
        (0, 1000, True),
    ):
        pool = ProcessPool(2)
        replace(DEFAULT_RUN, pool=pool).expect([ExpectedStage("evaluating", runs)])
        started.clear()
        pool.prepare(0.1, samples)
        assert bool(started) == starts


def test_kernels_have_the_threads_of_all_workers_while_this_process_works_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PTQ_THREADS", raising=False)
    monkeypatch.setattr("ptq.kernels.thread_pool._count_usable_cpus", lambda: 16)

    @use_given_threads
    def count(*, threads: int = 0, workers: int = 1) -> int:
        return get_thread_count()

    assert (count(), count(threads=2), count(threads=2, workers=3)) == (16, 2, 6)
    assert count(workers=3) == 16
    with limit_threads(1):
        assert count(threads=2, workers=3) == 1


class LateFuture(Future[Any]):
    """It ends just after it was first asked whether it has."""

    asked = 0

    def done(self) -> bool:
        self.asked += 1
        return self.asked > 1 and super().done()


class InstantWorker:
    """It runs each part when it gets it; the first one ends late."""

    slots, waiting = 1, 0

    def __init__(self) -> None:
        self.futures: list[Future[Any]] = []

    def submit(self, job: SharedJob, part: bytes) -> Future[Any]:
        future: Future[Any] = Future() if self.futures else LateFuture()
        future.set_result(run_part(job, (job.number,), part, None))
        self.futures.append(future)
        return future


class InstantPool(ProcessPool):
    """One worker, which has all samples."""

    works_here = False

    def __init__(self) -> None:
        super().__init__(2)
        self._instant = InstantWorker()

    def ready(self) -> Sequence[Any]:
        return [self._instant]


def test_a_part_that_ends_while_others_are_looked_at_keeps_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ptq.data.workers.run_part._opened", {})
    pool = InstantPool()
    try:
        found = [
            name for name, _ in SampleMap(NameJob(), replace(DEFAULT_RUN, pool=pool)).map(SAMPLES)
        ]
    finally:
        pool.stop()
    assert found == [sample.name for sample in SAMPLES]
