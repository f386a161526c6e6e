"""How do the inputs of a weighted sum vary together?

For rows q of K integers each, the count n, Σ q and Σ q qᵀ, all whole numbers: the same sums, bit for bit, in
whatever order, batches or shards the rows arrive, and on however many threads they are multiplied.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_ROWS = 256  # 256 · 255² < 2^24: float32 adds up so many products of codes without rounding
_TILE = 44  # OpenBLAS gives a product below 2^19 multiplications to one thread: more would get into our own's way
_NARROW = 2**15  # rows whose products int32 takes
_PENDING = 2**17  # codes that wait to be multiplied


class Covariance:
    """Sums of rows and of their outer products, of several groups of inputs side by side.

    Attributes:
        count: Rows of one group seen.
        sums: float64, whole numbers, shape (groups, K).
        products: int32, or int64 where needed, shape (groups, K, K).
    """

    def __init__(self, groups: int, length: int) -> None:
        self._count = 0
        self._sums = np.zeros((groups, length))
        self._products: NDArray[np.integer[Any]] = np.zeros((groups, length, length), np.int32)
        self._pending: list[NDArray[np.int16]] = []
        self._waiting = 0

    @property
    def count(self) -> int:
        """Rows of each group."""
        return self._count + self._waiting

    @property
    def sums(self) -> NDArray[np.float64]:
        """Σ q of each group."""
        self.settle()
        return self._sums

    @property
    def products(self) -> NDArray[np.integer[Any]]:
        """Σ q qᵀ of each group."""
        self.settle()
        return self._products

    def update(self, rows: NDArray[np.int16]) -> None:
        """Add rows of 8-bit codes less their zero point, shape (groups, rows, K)."""
        for start in range(0, rows.shape[1], _ROWS):
            self._take(rows[:, start : start + _ROWS])

    def _take(self, rows: NDArray[np.int16]) -> None:
        groups, count, length = rows.shape
        if self._waiting + count > min(_ROWS, max(1, _PENDING // (groups * length))):
            self.settle()
        self._pending.append(rows)
        self._waiting += count

    def merge(self, other: Covariance) -> Covariance:
        """The sums of both; neither is changed."""
        both = Covariance(*self.sums.shape)
        both._count = self.count + other.count
        both._sums = self.sums + other.sums
        both._products = self.products.astype(np.int64) + other.products
        return both

    def moment(self, *, centred: bool) -> NDArray[np.float64]:
        """E[q qᵀ] of each group, about the mean where ``centred``, else about 0."""
        n = max(self.count, 1)
        second: NDArray[np.float64] = self.products / n
        if centred:
            mean = self.sums / n
            second -= mean[:, :, None] * mean[:, None, :]
        return second

    def settle(self) -> None:
        """Multiply the rows that wait, which frees their memory."""
        if not self._pending:
            return
        rows = np.concatenate(self._pending, axis=1).astype(np.float32, order="C")
        self._pending, self._waiting = [], 0
        self._count += rows.shape[1]
        if self._count > _NARROW:
            self._products = self._products.astype(np.int64, copy=False)
        self._sums += rows.sum(axis=1, dtype=np.float64)
        length = rows.shape[2]
        # a copy: of one array with itself numpy makes a syrk, which takes all threads at any size
        columns = np.ascontiguousarray(rows.transpose(0, 2, 1))
        for row in range(0, length, _TILE):
            across = slice(row, row + _TILE)
            for column in range(0, row + 1, _TILE):
                down = slice(column, column + _TILE)
                product = (columns[:, across] @ rows[:, :, down]).astype(np.int32)
                self._products[:, across, down] += product
                if column < row:
                    self._products[:, down, across] += product.transpose(0, 2, 1)
