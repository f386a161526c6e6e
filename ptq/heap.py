"""How does memory that a stage of the work has freed get back to the operating system?

Graphs are circles of nodes and values, which only the garbage collector takes apart; and glibc keeps freed memory in
case it is wanted again, 300 MB of it after a calibration, while ONNX Runtime's next session asks for new.
"""

from __future__ import annotations

import ctypes
import gc
import sys

_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None


def give_back() -> None:
    """Collect garbage and return free pages, where the C library can; a tenth of a second."""
    gc.collect()
    if _TRIM is not None:
        _TRIM(0)
