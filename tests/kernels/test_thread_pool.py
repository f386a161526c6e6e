"""Oracle: the definition — every tile once, errors raised, the environment applied."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextvars import ContextVar

import pytest

from ptq.core.errors import UsageError
from ptq.kernels import thread_pool


def test_the_environment_sets_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTQ_THREADS", "1")
    assert thread_pool.get_thread_count() == 1
    monkeypatch.setenv("PTQ_THREADS", "4096")
    assert 1 <= thread_pool.get_thread_count() <= (os.cpu_count() or 1)
    for wrong in ("0", "-1", "two"):
        monkeypatch.setenv("PTQ_THREADS", wrong)
        with pytest.raises(UsageError, match="PTQ_THREADS"):
            thread_pool.get_thread_count()


def test_the_option_threads_limits_the_threads_of_a_verb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_pool, "_count_usable_cpus", lambda: 8)

    @thread_pool.use_given_threads
    def verb(*, threads: int = 0) -> int:
        return thread_pool.get_thread_count()

    assert (verb(threads=1), verb(threads=3), verb(threads=64)) == (1, 3, 8)
    assert verb() == verb(threads=0) == thread_pool.get_thread_count() == 8
    monkeypatch.setenv("PTQ_THREADS", "2")
    assert (verb(threads=1), verb(threads=3)) == (1, 2)


def test_a_map_starts_no_thread_beside_the_caller_where_one_is_allowed() -> None:
    with thread_pool.limit_threads(1):
        used = thread_pool.map_in_parallel(lambda _: threading.get_ident(), range(64))
    assert {*used} == {threading.get_ident()}


@pytest.mark.parametrize("number", [1, 3])
def test_every_tile_runs_once_even_when_tiles_run_tiles(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_pool, "get_thread_count", lambda: number)
    lock, seen = threading.Lock(), []

    def outer(i: int) -> None:
        def inner(j: int) -> None:
            with lock:
                seen.append((i, j))

        thread_pool.run_tiles(inner, 5, work=1e9)

    thread_pool.run_tiles(outer, 7, work=1e9)
    assert sorted(seen) == [(i, j) for i in range(7) for j in range(5)]


def test_an_error_in_any_tile_reaches_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_pool, "get_thread_count", lambda: 3)
    meeting = threading.Barrier(3, timeout=30)

    def tile(i: int) -> None:
        meeting.wait()  # all three threads are at work, so that two of them are the pool's
        if threading.current_thread() is not threading.main_thread():
            raise ValueError("in the pool")

    with pytest.raises(ValueError, match="in the pool"):
        thread_pool.run_tiles(tile, 3, work=1e9)


def test_little_work_stays_on_the_callers_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_pool, "get_thread_count", lambda: 2)
    seen = set()
    thread_pool.run_tiles(lambda i: seen.add(threading.current_thread()), 100, work=1000)
    assert seen == {threading.main_thread()}


def test_tiles_of_a_shared_tile_stay_on_its_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_pool, "get_thread_count", lambda: 2)
    meeting, strangers, crews = threading.Barrier(2, timeout=30), [], []

    def outer(i: int) -> None:
        meeting.wait()  # both threads are at work
        own = threading.current_thread()
        crews.append(thread_pool.choose_worker_count(1e9))
        thread_pool.run_tiles(
            lambda j: strangers.extend({threading.current_thread()} - {own}), 50, work=1e9
        )

    thread_pool.run_tiles(outer, 2, work=1e9)
    assert (strangers, crews) == ([], [1, 1])
    assert thread_pool.choose_worker_count(1e9) == 2


def test_results_of_jobs_come_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_pool, "get_thread_count", lambda: 3)
    assert thread_pool.map_in_parallel(lambda i: i * i, range(20)) == [i * i for i in range(20)]


def test_jobs_on_other_threads_see_the_context_of_the_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(thread_pool, "_count_usable_cpus", lambda: 4)
    monkeypatch.delenv("PTQ_THREADS", raising=False)
    value: ContextVar[int] = ContextVar("value", default=0)
    together = threading.Barrier(4, timeout=10)

    def job(_: int) -> tuple[int, int]:
        together.wait()  # each job is on a thread of its own
        return threading.get_ident(), value.get()

    token = value.set(7)
    try:
        found = thread_pool.map_in_parallel(job, range(4))
    finally:
        value.reset(token)
    assert len({thread for thread, _ in found}) == 4
    assert {seen for _, seen in found} == {7}


def test_an_error_of_an_item_comes_before_that_of_reading_a_later_one() -> None:
    def items() -> Iterator[int]:
        yield from range(3)
        raise ValueError("reading")

    def job(item: int) -> int:
        if item == 1:
            raise KeyError("item 1")
        return item

    results = thread_pool.map_ahead(job, items(), 4)
    assert next(results) == 0
    with pytest.raises(KeyError, match="item 1"):
        next(results)
    good = thread_pool.map_ahead(lambda item: item, items(), 4)
    assert [next(good), next(good), next(good)] == [0, 1, 2]
    with pytest.raises(ValueError, match="reading"):
        next(good)
