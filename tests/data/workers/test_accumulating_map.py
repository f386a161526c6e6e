"""Each sample counts once in the sums of a job that adds up, whatever happens to the process that has it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
import pytest

from ptq.core.errors import DataError
from ptq.core.run_options import DEFAULT_RUN
from ptq.data.labelling import WITH_SAMPLES
from ptq.data.sample import BadSample, Sample, Samples
from ptq.data.workers.accumulating_map import AccumulatingMap
from ptq.data.workers.run_part import SharedJob, run_part
from ptq.data.workers.sample_parts import Part
from ptq.data.workers.worker_pool import ProcessPool

SAMPLES, GROUP = 150, 3
HERE = threading.get_ident()
BAD = 40
"""The sample that some jobs cannot use in another process."""


def is_elsewhere() -> bool:
    return threading.get_ident() != HERE


@dataclass(frozen=True)
class Numbers:
    """Samples that hold their number; another process may find some of them bad."""

    bad: Sequence[int] = ()

    classes, preprocess, labelling = (), None, WITH_SAMPLES

    def positions(self, at_most: int | None = None) -> range:
        return range(SAMPLES if at_most is None else min(SAMPLES, at_most))

    def name(self, position: int) -> str:
        return str(position)

    identity = name

    def highest_label(self, positions: Sequence[int] | None) -> int:
        return -1

    def read(self, positions: Iterable[int]) -> Iterator[Sample | BadSample]:
        for k in positions:
            if k >= SAMPLES:
                return
            if k in self.bad and is_elsewhere():
                yield BadSample(str(k), DataError("damaged"))
            else:
                yield Sample(str(k), {"x": np.full(1, k)})


@dataclass(frozen=True)
class Origin:
    """Opens the samples in another process."""

    source: Numbers
    finds_samples: bool = True

    def __call__(self) -> Samples:
        return Samples(self.source, skip_bad=True, origin=self)


@dataclass(frozen=True)
class CountJob:
    """Counts the samples by number, in groups; it may fail on one elsewhere, or everywhere."""

    fails_elsewhere: bool = False
    fails: bool = False

    def open(self) -> Counting:
        return Counting(self)


class Counting:
    """The counts so far, and samples that wait for others."""

    def __init__(self, job: CountJob) -> None:
        self._job = job
        self.discard()

    def add(self, samples: Iterable[Sample]) -> None:
        for sample in samples:
            self._waiting.append(sample)
            if len(self._waiting) == GROUP:
                self._count()

    def collect(self) -> list[Counter[str]]:
        self._count()
        found, self.total = self.total, [Counter()]
        return found

    def discard(self) -> None:
        self.total: list[Counter[str]] = [Counter()]
        self._waiting: list[Sample] = []

    def _count(self) -> None:
        group, self._waiting = self._waiting, []
        for sample in group:
            fails = self._job.fails or (self._job.fails_elsewhere and is_elsewhere())
            if fails and sample.name == str(BAD):
                raise DataError(f"{sample.name}: it fails")
            self.total[0][sample.name] += 1


class ThreadWorker:
    """A thread in place of another process; it may end before a message, and its next ones are lost then."""

    slots = 1

    def __init__(self, executor: ThreadPoolExecutor) -> None:
        self._executor, self._futures = executor, list[Future[Any]]()
        self.parts = 0

    @property
    def waiting(self) -> int:
        return sum(not future.done() for future in self._futures)

    def submit(self, job: SharedJob, part: bytes) -> Future[Any]:
        self.parts += bool(part)

        def run() -> Any:
            time.sleep(0.002)  # this process has time for parts of its own
            return run_part(job, (job.number,), part, None)

        self._futures.append(self._executor.submit(run))
        return self._futures[-1]


class ThreadPool(ProcessPool):
    """This process and a thread; ``lost`` is the number of the message before which the thread ends."""

    def __init__(self, worker: ThreadWorker, lost: int) -> None:
        super().__init__(2)
        self._worker, self._lost, self._received = worker, lost, 0

    def ready(self) -> Sequence[Any]:
        return [self._worker] if self._received < self._lost else []

    def receive(self, worker: Any, future: Future[Any]) -> Any:
        self._received += 1
        return future.result() if self._received <= self._lost else None


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadWorker]:
    for opened in ("workers.run_part", "opened_sources"):  # a worker process would end with them
        monkeypatch.setattr(f"ptq.data.{opened}._opened", {})
    monkeypatch.setattr("ptq.data.workers.sharing_gain.MIN_GAIN", -1)
    with ThreadPoolExecutor(1) as executor:
        yield ThreadWorker(executor)


def sum_up(
    worker: ThreadWorker, job: CountJob, *, lost: int = 1000, origin: Origin | None = None
) -> tuple[list[Counter[str]], Samples]:
    pool = ThreadPool(worker, lost)
    samples = (origin or Origin(Numbers()))()
    try:
        found = AccumulatingMap(job, replace(DEFAULT_RUN, pool=pool)).sum_up(samples)
        return [counter for counters in found for counter in counters], samples
    finally:
        pool.stop()


def count_each(found: Sequence[Counter[str]]) -> None:
    """Each sample was counted once."""
    assert sum(found, Counter()) == Counter(map(str, range(SAMPLES)))


def test_each_process_sends_one_sum(worker: ThreadWorker) -> None:
    found, _ = sum_up(worker, CountJob())
    count_each(found)
    assert worker.parts > 2
    assert len(found) == 2
    assert all(found)


def test_a_process_sends_its_sum_after_some_parts(
    worker: ThreadWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptq.data.workers.accumulating_map._HELD_PARTS", 1)
    found, _ = sum_up(worker, CountJob())
    count_each(found)
    assert len(found) > 2


@pytest.mark.parametrize("held", [1, 64])
@pytest.mark.parametrize("lost", range(6))
def test_a_process_that_ends_has_its_parts_run_again(
    worker: ThreadWorker, lost: int, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptq.data.workers.accumulating_map._HELD_PARTS", held)
    count_each(sum_up(worker, CountJob(), lost=lost)[0])


def test_a_sample_that_fails_in_another_process_runs_in_this_one(worker: ThreadWorker) -> None:
    count_each(sum_up(worker, CountJob(fails_elsewhere=True))[0])


@pytest.mark.parametrize("bad", [(BAD,), range(SAMPLES)], ids=["one", "all"])
@pytest.mark.parametrize("lost", [*range(1, 6), 1000])
def test_samples_that_only_another_process_finds_bad_count_once(
    worker: ThreadWorker, lost: int, bad: Sequence[int]
) -> None:
    found, samples = sum_up(worker, CountJob(), lost=lost, origin=Origin(Numbers(bad)))
    count_each(found)
    assert samples.skipped == []


def test_samples_that_others_do_not_find_are_sent_and_counted_by_part(worker: ThreadWorker) -> None:
    found, _ = sum_up(worker, CountJob(), origin=Origin(Numbers(), finds_samples=False))
    count_each(found)
    assert len(found) > 2


def test_a_sample_that_fails_everywhere_is_the_error(worker: ThreadWorker) -> None:
    with pytest.raises(DataError, match=f"{BAD}: it fails"):
        sum_up(worker, CountJob(fails=True))


def test_the_time_of_a_sample_is_that_of_all_parts_so_far(
    worker: ThreadWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One part may leave all its samples to the next one, which then runs those of both."""
    ticks = count()
    monkeypatch.setattr("time.perf_counter", lambda: float(next(ticks) ** 2))
    pool = ThreadPool(worker, 1000)
    parts = AccumulatingMap(CountJob(), replace(DEFAULT_RUN, pool=pool))
    for first in range(0, 20, 5):
        parts.run_here(Part([Sample(str(first + k), {}) for k in range(5)], 5, first))
        assert parts._gain.each == parts._gain.spent / (first + 5)
    pool.stop()


def test_one_process_counts_all_samples_as_one_part() -> None:
    found = AccumulatingMap(CountJob(), DEFAULT_RUN).sum_up(Origin(Numbers())())
    count_each([counter for counters in found for counter in counters])
