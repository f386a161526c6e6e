"""Threads of the kernels: their number, tiles that they share, buffers, and outputs.

numpy releases the interpreter lock inside its loops, so tiles run in parallel on ordinary threads. The calling
thread works too. It takes tiles from the same counter as the pool, so a busy or slow pool costs nothing.
"""

from __future__ import annotations

import math
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from functools import cache, wraps
from itertools import count
from math import prod
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ptq.core.errors import UsageError
from ptq.kernels.lent_threads import find_lent_threads

# Nanoseconds of work below which one thread is as fast. Whenever two threads want the interpreter lock, one of them
# sleeps, which costs about 40 µs on a virtual machine (measured: no gain below 1.5 ms, 1.5 times from 3 ms on).
MIN_PARALLEL_NANOSECONDS = 2_000_000

# Arrays of a slot that are kept for reuse.
_MAX_VIEWS = 64

Item = TypeVar("Item")
Result = TypeVar("Result")
P = ParamSpec("P")

_local = threading.local()
_pool: ThreadPoolExecutor | None = None
_lock = threading.Lock()
_limit: ContextVar[int | None] = ContextVar("the most threads of a job", default=None)


def get_thread_count() -> int:
    """Return the number of threads: PTQ_THREADS or all processors, at most `limit_threads` and those of the process.

    Raises:
        UsageError: PTQ_THREADS is not a positive number.
    """
    usable = min(_count_usable_cpus(), _limit.get() or sys.maxsize)
    wanted = os.environ.get("PTQ_THREADS")
    if not wanted:
        return usable
    if not wanted.isdecimal() or int(wanted) < 1:
        raise UsageError(f"PTQ_THREADS is {wanted!r}; set it to a positive number, or unset it")
    return min(int(wanted), usable)


@contextmanager
def limit_threads(count: int | None) -> Iterator[None]:
    """At most so many threads within the block, and no more than around it; None changes nothing."""
    limits = [limit for limit in (_limit.get(), count) if limit]
    token = _limit.set(min(limits, default=None))
    try:
        yield
    finally:
        _limit.reset(token)


def use_given_threads(verb: Callable[P, Result]) -> Callable[P, Result]:
    """Let the keyword ``threads`` of a verb limit the threads of the kernels while it runs; 0 limits nothing.

    With ``workers`` the kernels of this process have the threads of all of them: those wait while it works alone.
    """

    @wraps(verb)
    def limited(*args: P.args, **kwargs: P.kwargs) -> Result:
        threads, workers = (
            kwargs.get(name, least) for name, least in (("threads", 0), ("workers", 1))
        )
        limit = None
        if isinstance(threads, int) and threads > 0:
            limit = threads * (workers if isinstance(workers, int) and workers > 0 else 1)
        with limit_threads(limit):
            return verb(*args, **kwargs)  # it refuses other values

    return limited


@cache
def _count_usable_cpus() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def run_tiles(
    tile: Callable[[int], None], tiles: int, work: float, *, most: int | None = None
) -> None:
    """Call ``tile(i)`` for every i below ``tiles``, on all threads, in no particular order.

    A tile that runs on several threads runs its own inner tiles on its thread alone. Context variables have the
    values that they have here. Threads that are lent to other processes take tiles once they are taken back.

    Args:
        tile: Computes one tile.
        tiles: Number of tiles.
        work: Estimated nanoseconds of all tiles on one thread; little work stays on the calling thread.
        most: The largest number of threads; None for all.
    """
    numbers = count()

    def share() -> None:
        while (i := next(numbers)) < tiles:
            tile(i)

    def share_alone() -> None:
        _local.sharing = True
        try:
            share()
        finally:
            _local.sharing = False

    helpers = min(choose_worker_count(work), tiles, most or tiles) - 1
    if helpers < 1:
        return share()
    pool, lent = _get_shared_pool(), find_lent_threads()
    contexts, futures = [copy_context() for _ in range(helpers)], list[Future[None]]()

    def start_helpers(count: int) -> None:
        for _ in range(count):
            futures.append(pool.submit(contexts.pop().run, share_alone))

    later = 0 if lent is None else min(lent.count, helpers)
    start_helpers(helpers - later)
    try:
        with nullcontext() if lent is None else lent.when_back(lambda: start_helpers(later)):
            share_alone()
    finally:
        # Only helpers that have started are waited for: the pool may be busy with another job.
        started = [future for future in futures if not future.cancel()]
        errors = [error for future in started if (error := future.exception())]
    if errors:
        raise errors[0]


def map_in_parallel(
    job: Callable[[Item], Result], items: Sequence[Item], *, most: int | None = None
) -> list[Result]:
    """Return the results of the job for each item, in order; the jobs run on all threads, whatever their size.

    Args:
        job: Called once for each item; items start in their order.
        items: What the jobs work on.
        most: The largest number of threads; None for all.
    """
    found: dict[int, Result] = {}

    def tile(i: int) -> None:
        found[i] = job(items[i])

    run_tiles(tile, len(items), math.inf, most=most)
    return [found[i] for i in range(len(items))]


def map_ahead(
    job: Callable[[Item], Result], items: Iterable[Item], threads: int
) -> Iterator[Result]:
    """The results of the job for each item, in order, while the next items run; their kernels run on one thread each.

    Where the caller stops early, the items that have started end first.

    Args:
        job: Called once for each item.
        items: What the jobs work on; one more waits for a thread.
        threads: How many jobs run at once.
    """

    def run_alone(item: Item) -> Result:
        _local.sharing = True
        with limit_threads(1):
            return job(item)

    pool = ThreadPoolExecutor(threads, thread_name_prefix="ptq-map")
    running, remaining = deque[Future[Result]](), iter(items)
    failure: Exception | None = None
    try:
        while True:
            try:
                item = next(remaining)
            except StopIteration:
                break
            except Exception as error:  # earlier items come first, with their errors
                failure = error
                break
            running.append(pool.submit(copy_context().run, run_alone, item))
            if len(running) > threads:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
        if failure is not None:
            raise failure
    finally:
        pool.shutdown(cancel_futures=True)


def choose_worker_count(work: float) -> int:
    """Return the number of threads for a job of that many nanoseconds; 1 inside a tile of a parallel job."""
    return (
        get_thread_count()
        if work >= MIN_PARALLEL_NANOSECONDS and not getattr(_local, "sharing", False)
        else 1
    )


def choose_tile_count(tiles: int, most: int, work: float) -> int:
    """Return the number of tiles: at least ``tiles``, at most ``most``, a multiple of the job's threads.

    So no thread is idle while the last tiles run.
    """
    number = choose_worker_count(work)
    return min(-(-tiles // number) * number, most)


def get_scratch_buffer(
    slot: str, shape: tuple[int, ...], dtype: DTypeLike = np.float32
) -> NDArray[Any]:
    """Return an uninitialised array; the next call of this thread with the same slot reuses its memory."""
    kept: _ScratchMemory | None = getattr(_local, slot, None)
    if kept is None:
        kept = _ScratchMemory()
        setattr(_local, slot, kept)
    view = kept.views.get((shape, dtype))
    return kept.view(shape, dtype) if view is None else view


class _ScratchMemory:
    """Memory of one slot of a thread, and the arrays in it that were requested before."""

    def __init__(self) -> None:
        self.memory: NDArray[np.uint8] = np.empty(0, np.uint8)
        self.views: dict[tuple[tuple[int, ...], DTypeLike], NDArray[Any]] = {}

    def view(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        size = prod(shape) * np.dtype(dtype).itemsize
        grows = self.memory.size < size
        if grows or len(self.views) == _MAX_VIEWS:
            self.views.clear()
        if grows:
            self.memory = np.empty(size, np.uint8)
        view = self.views[shape, dtype] = self.memory[:size].view(dtype).reshape(shape)
        return view


class TiledOutput:
    """An output array that tiles are written into; the first tile determines its type."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self._array: NDArray[Any] | None = None
        self._lock = threading.Lock()

    def __setitem__(self, where: Any, tile: NDArray[Any]) -> None:
        if self._array is None:
            with self._lock:
                if self._array is None:
                    self._array = np.empty(self.shape, tile.dtype)
        self._array[where] = tile

    @property
    def array(self) -> NDArray[Any]:
        """The output, after at least one tile was written."""
        assert self._array is not None
        return self._array


def _get_shared_pool() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(max(8, os.cpu_count() or 1), thread_name_prefix="ptq")
        return _pool


def _reset_pool() -> None:
    global _pool, _lock
    _pool, _lock = None, threading.Lock()


# Threads do not survive a fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_pool)
