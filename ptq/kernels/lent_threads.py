"""Threads of a job that other processes use for a while: tiles run on the others until these are taken back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_lent: ContextVar[LentThreads | None] = ContextVar("the threads that other processes use")


class LentThreads:
    """Threads of a job that other processes use until they are taken back, once.

    Attributes:
        count: The number of threads.
    """

    def __init__(self, count: int) -> None:
        """Lend ``count`` threads; a job has one left at least."""
        self.count = count
        self._lock, self._are_back = threading.Lock(), False
        self._waiting = list[Callable[[], None]]()

    def take_back(self) -> None:
        """All jobs that run use them again."""
        with self._lock:
            self._are_back = True
            for start in self._waiting:
                start()
            self._waiting.clear()

    @contextmanager
    def when_back(self, start: Callable[[], None]) -> Iterator[None]:
        """Call ``start`` once when they are taken back, which may be now; not after the block."""
        with self._lock:
            if self._are_back:
                start()
            else:
                self._waiting.append(start)
        try:
            yield
        finally:
            with self._lock:
                if start in self._waiting:
                    self._waiting.remove(start)


@contextmanager
def lend_threads(count: int) -> Iterator[LentThreads]:
    """Lend threads of the jobs of this thread within the block."""
    lent = LentThreads(count)
    token = _lent.set(lent)
    try:
        yield lent
    finally:
        _lent.reset(token)
        lent.take_back()


def find_lent_threads() -> LentThreads | None:
    """The threads of the jobs of this thread that are lent."""
    return _lent.get(None)
