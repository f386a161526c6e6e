"""Sources of samples that a process has opened for another one, once for each thread and run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_opened: dict[tuple[int, str], Any] = {}
"""By the number of the thread and the origin."""


def open_once(origin: Callable[[], T]) -> T:
    """What the origin opens, kept by this thread until `forget_sources`; equal origins have equal texts."""
    key = threading.get_ident(), repr(origin)
    if key not in _opened:
        _opened[key] = origin()
    found: T = _opened[key]
    return found


def forget_sources(thread: int) -> None:
    """Free what a thread has opened: another run lists its samples anew."""
    for key in [key for key in tuple(_opened) if key[0] == thread]:  # other threads may add
        del _opened[key]
