"""Ctrl-C and worker processes: this process ends them, and none of them receives it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


def ignore_interrupts() -> None:
    """Leave Ctrl-C to the parent, which ends this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def hold_interrupts() -> Iterator[None]:
    """Delay Ctrl-C; a process that starts in the meantime never receives it, however long its imports take."""
    received: list[int] = []
    masks = hasattr(signal, "pthread_sigmask")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]) if masks else set()
    # the mask holds for this thread only; another thread may receive the signal for the process
    handles = threading.current_thread() is threading.main_thread()
    handler = (
        signal.signal(signal.SIGINT, lambda number, _: received.append(number)) if handles else None
    )
    try:
        yield
    finally:
        if handler is not None:
            signal.signal(signal.SIGINT, handler)
        if masks:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if received:
        signal.raise_signal(signal.SIGINT)
