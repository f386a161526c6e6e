"""Exact second moments of the inputs of a weighted sum.

For rows q of K integers each: the count n, Σ q and Σ q qᵀ, all whole numbers. The sums are the same, bit for bit, for
every order, batch size and sharding of the rows. They do not depend on the number of threads either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import FloatArray

_ROWS = 128
"""Rows multiplied at once: 128 · 255² < 2^24, so float32 adds the products of codes without rounding."""
_HEIGHT, _WIDTH = 48, 80
"""Sides of a tile. OpenBLAS runs products below 2^19 multiplications on one thread, which leaves ours alone."""
_STRIP = 4 * _HEIGHT
"""Rows of the matrix that are computed at once: each call asks for Python's lock."""
_INT32_ROWS = 2**15
"""Rows whose sum of products fits int32."""
_PENDING = 2**17
"""Codes that wait to be multiplied, at most, if they are of more than `_MIN_ROWS` rows."""
_MIN_ROWS = 32
"""Rows that are worth a product."""


class Covariance:
    """Sums of rows and of their outer products, for several groups of inputs.

    Attributes:
        count: Number of rows of one group.
        sums: float64, whole numbers, shape (groups, K).
        outer_products: int32, or int64 if needed, shape (groups, K, K).
    """

    def __init__(self, groups: int, length: int) -> None:
        self._count = 0
        self._sums = np.zeros((groups, length))
        # The matrix is symmetric: only rows of tiles up to the diagonal tile are kept.
        self._strips: list[NDArray[np.integer[Any]]] = [
            np.zeros((groups, end - start, end), np.int32)
            for start, end in _list_slices(length, _STRIP)
        ]
        self._pending: list[NDArray[np.int16]] = []
        self._waiting = 0

    @property
    def count(self) -> int:
        """Number of rows of each group."""
        return self._count + self._waiting

    @property
    def sums(self) -> NDArray[np.float64]:
        """Σ q of each group."""
        rows = self.rows
        return self._flushed_sums() if rows is None else rows.sum(axis=2, dtype=np.float64)

    @property
    def rows(self) -> NDArray[np.int16] | None:
        """All rows, shape (groups, K, rows), while none of them is multiplied yet; else None."""
        if self._count or not self._pending:
            return None
        return np.concatenate(self._pending, axis=2)

    @property
    def outer_products(self) -> NDArray[np.integer[Any]]:
        """Σ q qᵀ of each group."""
        self.flush()
        groups, length = self._sums.shape
        kind = self._strips[0].dtype if self._strips else np.int32
        whole: NDArray[np.integer[Any]] = np.empty((groups, length, length), kind)
        for (start, end), strip in zip(_list_slices(length, _STRIP), self._strips, strict=True):
            whole[:, start:end, :end] = strip
            whole[:, :start, start:end] = strip[:, :, :start].transpose(0, 2, 1)
        return whole

    def update(self, rows: NDArray[np.int16]) -> None:
        """Add rows of 8-bit codes less their zero point, shape (groups, K, rows)."""
        for start in range(0, rows.shape[2], _ROWS):
            self._enqueue(rows[:, :, start : start + _ROWS])

    def _enqueue(self, rows: NDArray[np.int16]) -> None:
        groups, length, count = rows.shape
        if self._waiting + count > min(_ROWS, max(_MIN_ROWS, _PENDING // (groups * length))):
            self.flush()
        self._pending.append(rows)
        self._waiting += count

    def merge(self, other: Covariance) -> Covariance:
        """The sums of both; neither is changed."""
        both = Covariance(*self._sums.shape)
        both._count = self.count + other.count
        both._sums = self._flushed_sums() + other._flushed_sums()
        pairs = zip(self._strips, other._strips, strict=True)
        kind = np.dtype(np.int32 if both._count <= _INT32_ROWS else np.int64)
        both._strips = [np.add(mine, theirs, dtype=kind) for mine, theirs in pairs]
        return both

    def second_moment(self, *, centred: bool, first: int = 0) -> NDArray[np.float64]:
        """E[q qᵀ] of each group, about the mean if ``centred``, else about 0.

        Args:
            centred: Whether the mean is subtracted.
            first: The first row of the matrix to return; the shape is (groups, K − first, K).
        """
        n = max(self.count, 1)
        mean = self._flushed_sums() / n
        groups, length = mean.shape
        second = np.empty((groups, length - first, length))
        for (start, end), strip in zip(_list_slices(length, _STRIP), self._strips, strict=True):
            if end <= first:
                continue
            top = max(start, first)
            part = second[:, top - first : end - first, :end]
            np.divide(strip[:, top - start :], n, out=part)
            if centred:
                part -= mean[:, top:end, None] * mean[:, None, :end]
            second[:, : top - first, top:end] = part[:, :, first:top].transpose(0, 2, 1)
        return second

    def _flushed_sums(self) -> NDArray[np.float64]:
        self.flush()
        return self._sums

    def flush(self) -> None:
        """Multiply the waiting rows and free their memory."""
        if not self._pending:
            return
        rows = np.concatenate(self._pending, axis=2, dtype=np.float32)
        self._pending, self._waiting = [], 0
        groups, length, count = rows.shape
        self._count += count
        if self._count > _INT32_ROWS:
            self._strips = [strip.astype(np.int64, copy=False) for strip in self._strips]
        self._sums += np.einsum("gkr->gk", rows)
        products = np.empty((groups, min(_STRIP, length), length), np.float32)
        for (start, end), strip in zip(_list_slices(length, _STRIP), self._strips, strict=True):
            # A copy: for a product of an array with itself numpy calls syrk, which uses all threads at any size.
            mine, found = rows[:, start:end].copy(), products[:, : end - start, :end]
            _multiply_by_tiles(mine, rows[:, :end], found)
            np.add(strip, found, out=strip, dtype=strip.dtype, casting="unsafe")


class PooledCovariance:
    """Second moments over the inputs of several uses of one weight, each collected in a scale of its own."""

    def __init__(self, parts: Sequence[tuple[Covariance, float]]) -> None:
        """Take the covariance of each use, with its scale relative to one scale for all."""
        self._parts = parts

    @property
    def count(self) -> int:
        """Number of rows of each group, over all uses."""
        return sum(part.count for part, _ in self._parts)

    def second_moment(self, *, centred: bool) -> NDArray[np.float64]:
        """E[q qᵀ] of each group in the common scale, about the mean over all uses if ``centred``, else about 0."""
        n = max(self.count, 1)
        first, _ = self._parts[0]
        groups, length = first.sums.shape
        second, mean = np.zeros((groups, length, length)), np.zeros((groups, length))
        for part, scale in self._parts:
            second += part.outer_products * (scale**2 / n)
            mean += part.sums * (scale / n)
        if centred:
            second -= mean[:, :, None] * mean[:, None, :]
        return second


def _multiply_by_tiles(mine: FloatArray, theirs: FloatArray, out: FloatArray) -> None:
    """Write mine · theirsᵀ of each group into out, in one call for all tiles of one size."""
    groups, _, count = theirs.shape
    for rows, height in _split(mine.shape[1], _HEIGHT):
        for columns, width in _split(theirs.shape[1], _WIDTH):
            left = mine[:, rows].reshape(groups, -1, 1, height, count)
            right = theirs[:, columns].reshape(groups, 1, -1, width, count)
            shape = groups, left.shape[1], height, right.shape[2], width
            into = out[:, rows, columns].reshape(shape).transpose(0, 1, 3, 2, 4)
            np.matmul(left, right.transpose(0, 1, 2, 4, 3), out=into)


def _split(length: int, size: int) -> Iterator[tuple[slice, int]]:
    """Slices of a length: all that holds whole tiles, with their size; and the rest."""
    whole = length - length % size
    if whole:
        yield slice(whole), size
    if whole < length:
        yield slice(whole, length), length - whole


@cache
def _list_slices(length: int, longest: int) -> list[tuple[int, int]]:
    """Start and end of each part of a length."""
    return [(start, min(start + longest, length)) for start in range(0, length, longest)]
