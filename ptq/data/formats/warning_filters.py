"""Filters of warnings while a library decodes a sample; threads take turns.

The filters belong to the process. Two threads that changed them at once would restore each other's.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.RLock()


@contextmanager
def separate_filters() -> Iterator[None]:
    """Restore the filters of warnings at the end; no other thread changes them here in the meantime."""
    with _lock, warnings.catch_warnings():
        yield


# A child that is forked in the meantime would keep the lock and the filters for ever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )
