"""How does memory that a stage of the work has freed get back to the operating system?

Graphs are circles of nodes and values, which only the garbage collector takes apart; and glibc keeps freed memory in
case it is wanted again, 300 MB of it after a calibration, while ONNX Runtime's next session asks for new.
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
"""Bytes of a process in which nothing can be worth the while: 130 MB of them are libraries."""


def release_memory() -> None:
    """Collect garbage and return free pages, where the C library can: a tenth of a second, if it may be much."""
    if _TRIM is None:
        gc.collect()
    elif int(_PAGES.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") > _SMALL_PROCESS:
        gc.collect()
        _TRIM(0)
