"""Counts of small integers, by the fastest loop over integers that SciPy has compiled.

SciPy counts the columns of an index before it selects them from a sparse matrix. With no rows and one column it does
nothing else. This loop runs without the interpreter's lock, takes 32-bit keys and adds to given memory. It takes a
third of the time of ``numpy.bincount``, which takes 64-bit keys and looks for their extremes first.

The loop is private to SciPy: an installation without it counts with numpy.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

CHUNK = 1 << 16
"""Keys counted at once. They and the values that they come from take 512 kB, which a second-level cache holds."""
KEYS = 1 << 16
"""Number of different keys."""
LANES = 4
"""Tables in which the counts of frequent keys may be spread."""
_LANE = KEYS + 2112
"""Distance of the tables. With a power of 2, the counts of a key would share a set of the first-level cache."""
_FEW = 1 << 12
"""Number of keys for which ``scipy.sparse`` is not loaded, which takes 0.15 s."""


class KeyCounter(threading.local):
    """Memory for the keys of one chunk and for the counts; each thread has its own.

    Attributes:
        keys: uint32, `CHUNK` long: write the keys of a chunk here, each below `KEYS`.
        flags: bool, `CHUNK` long: memory for any use before the keys of the next chunk, whose memory it is.
        counts: int32, shape (`LANES`, `KEYS`), to be added up. Whoever counts sets them to 0 afterwards.
    """

    def __init__(self) -> None:
        self._columns = np.zeros(CHUNK, np.int32)
        self._row_ends, self._into = np.zeros(2, np.int32), np.zeros(2, np.int32)  # without rows
        self._table = np.zeros(LANES * _LANE, np.int32)
        self.keys: NDArray[np.uint32] = self._columns.view(np.uint32)
        self.flags: NDArray[np.bool_] = self._columns.view(np.bool_)[:CHUNK]
        self.counts: NDArray[np.int32] = self._table.reshape(LANES, _LANE)[:, :KEYS]

    def add(self, size: int, *, spread: bool = False) -> None:
        """Count the first ``size`` keys.

        Args:
            size: Number of keys.
            spread: Use all lanes, else the first one. Additions to one address wait for each other, so a frequent
                key takes less time if its neighbours are counted elsewhere.
        """
        if spread:
            np.add(self.keys[:size], _compute_lane_offsets()[:size], out=self.keys[:size])
        if size <= _FEW and "scipy.sparse" not in sys.modules:
            keys, counts = np.unique(self.keys[:size], return_counts=True)
            self._table[keys] += counts.astype(np.int32)
        elif (count := _find_loop()) is not None:
            ends = self._row_ends
            count(size, self._columns, 0, 1, ends, ends, self._table, self._into)
        else:
            counts = np.bincount(self._columns[:size], minlength=self._table.size)
            self._table += counts.astype(np.int32)


@cache
def _compute_lane_offsets() -> NDArray[np.uint32]:
    return np.arange(CHUNK, dtype=np.uint32) % LANES * np.uint32(_LANE)


@cache
def get_thread_counter() -> KeyCounter:
    """The counter, which gives each thread its own memory."""
    return KeyCounter()


def count_keys(keys: NDArray[np.uint16], number: int) -> NDArray[np.int64]:
    """Count of each integer below a number among at most `CHUNK` keys, which are below it."""
    counter = get_thread_counter()
    counter.keys[: keys.size] = keys
    try:
        counter.add(keys.size)
        return counter.counts[0, :number].astype(np.int64)
    finally:
        counter.counts[0, :number] = 0


@cache
def _find_loop() -> Callable[..., Any] | None:
    return getattr(scipy.sparse._sparsetools, "csr_column_index1", None)
