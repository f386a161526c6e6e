"""Threads of this process that run a job while other processes wait; the definition, by hand, is the oracle."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from ptq.core.errors import DataError
from ptq.core.run_options import RunOptions
from ptq.data import Sample
from ptq.data.workers.sample_map import SampleMap
from ptq.data.workers.sample_parts import Part
from ptq.data.workers.worker_pool import ProcessPool
from ptq.kernels import thread_pool

SAMPLES = [Sample(str(n), {"x": np.full(1, n)}, ()) for n in range(12)]
THREADS = 3


@pytest.fixture(autouse=True)
def _many_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_pool, "_count_usable_cpus", lambda: 8)
    monkeypatch.delenv("PTQ_THREADS", raising=False)


@dataclass
class _Job:
    """What runs each sample; it notes which ones started, and on which threads."""

    act: Callable[[int], None] = lambda _: None
    opened: int = 0
    started: list[int] = field(default_factory=list)
    threads: set[int] = field(default_factory=set)

    def open(self) -> Callable[[Part], int]:
        self.opened += 1

        def run(part: Part) -> int:
            [sample] = part.samples
            number = int(sample.feed["x"][0])
            self.started.append(number)
            self.threads.add(threading.get_ident())
            self.act(number)
            return number * 10

        return run


def _map(job: _Job, **options: Any) -> SampleMap[int]:
    run = RunOptions(threads=1, pool=ProcessPool(THREADS))
    return SampleMap(job, run, **{"thread_seconds": np.inf, **options})


def test_results_come_in_order_from_as_many_threads_as_there_are_processes() -> None:
    together = threading.Barrier(THREADS, timeout=10)  # it opens only if three run at once
    job = _Job(lambda _: together.wait() and None)
    assert list(_map(job).map(SAMPLES)) == [sample * 10 for sample in range(12)]
    assert (job.opened, len(job.threads)) == (1, THREADS)
    assert threading.get_ident() not in job.threads


def test_the_error_is_that_of_the_first_sample_that_fails() -> None:
    def fail(number: int) -> None:
        if number in (4, 5):
            time.sleep(0.05 if number == 4 else 0)
            raise DataError(f"sample {number}")

    with pytest.raises(DataError, match="sample 4"):
        list(_map(_Job(fail)).map(SAMPLES))


def test_a_search_that_ends_early_runs_few_samples_more() -> None:
    job = _Job()
    results = _map(job).map(SAMPLES)
    assert [next(results), next(results)] == [0, 10]
    results.close()  # type: ignore[attr-defined]
    assert max(job.started) <= 2 + THREADS


def test_kernels_of_a_job_run_on_its_thread_alone() -> None:
    found = []
    job = _Job(lambda _: found.append(thread_pool.choose_worker_count(1e12)))
    list(_map(job).map(SAMPLES))
    assert {*found} == {1}


@pytest.mark.parametrize(("seconds", "on_threads"), [(0.1, True), (1.0, False), (0.0, False)])
def test_a_job_that_is_long_or_unknown_is_for_processes(seconds: float, on_threads: bool) -> None:
    pool, job = ProcessPool(THREADS), _Job()
    pool.most_seconds = seconds
    done = SampleMap(job, RunOptions(threads=1, pool=pool), runs=1, thread_seconds=5.0)
    assert list(done.map(SAMPLES)) == [sample * 10 for sample in range(12)]
    assert (threading.get_ident() not in job.threads) == on_threads
    pool.stop()


def test_without_other_processes_nothing_runs_on_another_thread() -> None:
    job = _Job()
    found = SampleMap(job, RunOptions(threads=1), thread_seconds=np.inf).map(SAMPLES)
    assert list(found) == [sample * 10 for sample in range(12)]
    assert job.threads == {threading.get_ident()}
