"""Threads that read files ahead, and that no end of the process waits for: a store may send one byte a second."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue


class Readers:
    """Threads that read files by name. Those of an executor would be waited for, also after Ctrl-C."""

    def __init__(self, read: Callable[[str], bytes], most: int) -> None:
        """Start nothing yet.

        Args:
            read: Reads a file.
            most: Threads, and so files that are read at once.
        """
        self._read, self._most, self._threads = read, most, 0
        self._waiting: SimpleQueue[tuple[Future[bytes], str] | None] = SimpleQueue()

    def submit(self, name: str) -> Future[bytes]:
        """The content of a file, or the error of reading it."""
        future = Future[bytes]()
        self._waiting.put((future, name))
        if self._threads < self._most:
            self._threads += 1
            threading.Thread(
                target=self._run, name=f"ptq-read-{self._threads}", daemon=True
            ).start()
        return future

    def stop(self) -> None:
        """Read no further file; what is being read is left to itself."""
        with suppress(Empty):
            while (entry := self._waiting.get_nowait()) is not None:
                entry[0].cancel()
        for _ in range(self._threads):
            self._waiting.put(None)

    def _run(self) -> None:
        while (entry := self._waiting.get()) is not None:
            future, name = entry
            if not future.set_running_or_notify_cancel():
                continue
            try:
                content = self._read(name)
            except BaseException as error:  # the caller of `result` gets it
                future.set_exception(error)
            else:
                future.set_result(content)
            del entry, future
