"""How worker processes end: with this process, or by it, and never by Ctrl-C."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker


def start_in_worker(folder: str) -> None:
    """Leave Ctrl-C to the parent, which ends this process; and end with the parent if that is killed.

    What the user's code prints goes to standard error: standard output may be a JSON result of the parent.

    Args:
        folder: Where this process has its temporary files. The parent removes it, as a process that it ends cannot;
            where the parent is killed, this process does.
    """
    tempfile.tempdir = folder
    sys.stdout = sys.stderr
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(
        target=_end_with_parent, args=(folder,), name="end with parent", daemon=True
    ).start()


def _end_with_parent(folder: str) -> None:
    """The queue of an executor does not end with its parent: each process holds both of its ends."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)


@contextmanager
def hold_interrupts() -> Iterator[None]:
    """Delay Ctrl-C; a process that starts in the meantime never receives it, however long its imports take."""
    received: list[int] = []
    masks = hasattr(signal, "pthread_sigmask")
    if masks:
        # the resource tracker starts with the first process and would clear the mask: it starts now
        resource_tracker.ensure_running()
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
