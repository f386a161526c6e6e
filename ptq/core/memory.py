"""Return of freed memory to the operating system between two stages.

Graphs are cycles of nodes and values, which only the garbage collector frees. After that glibc keeps the memory for
later use: 300 MB after a calibration, while the next session of ONNX Runtime allocates new memory.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from pathlib import Path

_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
_PAGES = Path("/proc/self/statm")
_SMALL_PROCESS = 256 * 2**20
"""Bytes of a process below which releasing gains nothing; libraries take 130 MB."""


def release_memory() -> None:
    """Collect garbage and return free pages to the operating system, if the C library can.

    It takes 0.1 s. With glibc, a process below 256 MB is left unchanged.
    """
    if _TRIM is None:
        gc.collect()
    elif int(_PAGES.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") > _SMALL_PROCESS:
        gc.collect()
        _TRIM(0)
