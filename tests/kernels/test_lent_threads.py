"""Oracle: the definition — tiles run on the threads that are left, and on those that came back."""

from __future__ import annotations

import threading
import time

import pytest

from ptq.kernels import thread_pool
from ptq.kernels.lent_threads import LentThreads, lend_threads

ENOUGH_SECONDS = 60


def list_threads(tiles: int = 64) -> set[int]:
    """The threads that tiles ran on, each of which takes long enough for another one to start."""

    def tile(_: int) -> int:
        time.sleep(0.002)
        return threading.get_ident()

    return {*thread_pool.map_in_parallel(tile, range(tiles))}


@pytest.fixture(autouse=True)
def four_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_pool, "get_thread_count", lambda: 4)


@pytest.mark.parametrize(("lent", "left"), [(3, 1), (9, 1), (2, 2), (1, 3)])
def test_tiles_run_on_the_threads_that_are_left(lent: int, left: int) -> None:
    with lend_threads(lent):
        found = list_threads()
    assert threading.get_ident() in found
    assert len(found) <= left


def test_threads_that_come_back_take_tiles_of_a_job_that_runs() -> None:
    meeting, threads = threading.Barrier(4, timeout=ENOUGH_SECONDS), set[int]()

    def tile(number: int) -> None:
        threads.add(threading.get_ident())
        if number == 0:
            assert len(threads) == 1
            lent.take_back()
        meeting.wait()  # no tile ends before four threads have one

    with lend_threads(3) as lent:
        thread_pool.run_tiles(tile, 4, work=1e9)
    assert len(threads) == 4


def test_threads_that_came_back_before_serve_the_next_job() -> None:
    meeting = threading.Barrier(4, timeout=ENOUGH_SECONDS)
    with lend_threads(3) as lent:
        lent.take_back()
        thread_pool.map_in_parallel(lambda _: meeting.wait(), range(4))


def test_an_error_in_a_tile_of_a_thread_that_came_back_reaches_the_caller() -> None:
    meeting = threading.Barrier(4, timeout=ENOUGH_SECONDS)

    def tile(number: int) -> None:
        if number == 0:
            lent.take_back()
        meeting.wait()
        if threading.current_thread() is not threading.main_thread():
            raise ValueError("in the pool")

    with pytest.raises(ValueError, match="in the pool"), lend_threads(3) as lent:
        thread_pool.run_tiles(tile, 4, work=1e9)


def test_nothing_starts_for_a_job_that_has_ended() -> None:
    lent, started = LentThreads(1), list[int]()
    with lent.when_back(lambda: started.append(1)):
        pass
    lent.take_back()
    assert not started
    with lent.when_back(lambda: started.append(2)):
        assert started == [2]
    lent.take_back()
    assert started == [2]


def test_an_error_in_the_block_takes_the_threads_back() -> None:
    with pytest.raises(KeyError), lend_threads(3):
        raise KeyError
    meeting = threading.Barrier(4, timeout=ENOUGH_SECONDS)
    thread_pool.map_in_parallel(lambda _: meeting.wait(), range(4))
