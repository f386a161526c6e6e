"""Return of freed memory to the operating system between two stages.

Graphs are cycles of nodes and values, which only the garbage collector frees. After that glibc keeps the memory for
later use: 300 MB after a calibration, while the next session of ONNX Runtime allocates new memory.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
from pathlib import Path

_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
_SET_OPTION = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
_ARENA_MAX, _MMAP_THRESHOLD, _TOP_PAD, _TRIM_THRESHOLD = -8, -3, -2, -1
"""Numbers of glibc's options, from malloc.h."""
_SPARE_HEAP = 256 * 2**20
"""Bytes of the heap that stay with the process for the next run of a model. Pages count once they are used."""
_LARGEST_HEAP_BLOCK = 32 * 2**20
"""Bytes of the largest block on the heap, the most that glibc allows. A larger block is new memory each time."""
_PAGES, _STATUS = Path("/proc/self/statm"), Path("/proc/self/status")
_SMALL_PROCESS = 2**30
"""Bytes of a process that keeps freed memory: the next stage takes it again, and the system clears new pages."""


def release_memory(*, above: int = _SMALL_PROCESS) -> None:
    """Collect garbage and return free pages to the operating system, if the C library can.

    It takes 0.1 s.

    Args:
        above: With glibc, a process with fewer bytes is left unchanged.
    """
    if _TRIM is None:
        gc.collect()
    elif measure_memory() > above:
        gc.collect()
        _TRIM(0)


def can_measure_memory() -> bool:
    """Whether this system says how much memory the process takes, and returns freed memory on request."""
    return _SET_OPTION is not None and _PAGES.exists()


def measure_memory() -> int:
    """Bytes of memory that the process takes now (resident set size)."""
    return int(_PAGES.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def read_peak_memory() -> int:
    """Bytes of memory that the process has taken at its peak, since it started."""
    fields = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
    return int(fields["VmHWM"].split()[0]) * 1024


def return_large_blocks_at_once() -> None:
    """Let the C library return every freed block above 64 kB to the operating system, for the rest of the process.

    By default glibc keeps blocks of up to 32 MB for later use. How many depends on the order of the releases.
    """
    if _SET_OPTION is not None:
        _SET_OPTION(_MMAP_THRESHOLD, 1 << 16)
        _SET_OPTION(_TRIM_THRESHOLD, 1 << 17)


def keep_freed_blocks() -> None:
    """Let the C library keep freed memory for the next run of a model, until `release_memory`; for a process of ptq.

    By default glibc returns the tensors of each run to the operating system. Taking them again costs up to half a
    run: the system clears each page. Objects of the libraries are no longer searched for garbage.
    """
    gc.freeze()
    if _SET_OPTION is not None:
        _SET_OPTION(_ARENA_MAX, 1)  # a thread's own heap is released in parts of 64 MB
        _SET_OPTION(_MMAP_THRESHOLD, _LARGEST_HEAP_BLOCK)
        _SET_OPTION(_TRIM_THRESHOLD, _SMALL_PROCESS)
        _SET_OPTION(_TOP_PAD, _SPARE_HEAP)


class PeakMemory:
    """Measures the peak of the process's memory while it is entered.

    Attributes:
        bytes: The peak. A thread reads the memory every half millisecond, so a shorter peak may be missed.
    """

    def __enter__(self) -> PeakMemory:
        self.bytes = measure_memory()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self.bytes = max(self.bytes, measure_memory())

    def _watch(self) -> None:
        while not self._ended.wait(0.0005):
            self.bytes = max(self.bytes, measure_memory())
