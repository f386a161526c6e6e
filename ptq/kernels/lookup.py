"""Functions of one or two 8-bit integers as tables of all 256 or 65,536 values.

Tables are in the order of the byte, so that an int8 array indexes them without arithmetic: 0 … 127, −128 … −1. A
table is exact by construction, at any cost of the function. Measured: 0.8 ns an element for one operand, 1.0 ns for
two, which is the cost of an addition in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import IntArray, QType

Function = Callable[[NDArray[np.int64]], NDArray[Any]]
PairFunction = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[Any]]
PAIR_COUNT = 256 * 256
"""Number of pairs of 8-bit integers."""


def list_values(qtype: QType) -> NDArray[np.int64]:
    """Return all 256 integers of an 8-bit type in the order of their bytes, shape (256,)."""
    return np.arange(256, dtype=np.uint8).view(qtype.dtype).astype(np.int64)


def tabulate(function: Function, qtype: QType) -> NDArray[Any]:
    """Return the values of an elementwise function for every integer of an 8-bit type, shape (256,)."""
    return function(list_values(qtype))


def lookup(table: NDArray[Any], q: IntArray) -> NDArray[Any]:
    """Return the table's value at each integer, in the shape of q."""
    # mode="clip" avoids numpy's check of bounds, which a byte cannot exceed.
    return table.take(q.view(np.uint8), mode="clip")


class PairTable:
    """An elementwise function of two 8-bit integers that becomes a table after enough calls.

    The table is computed once the number of requested values reaches its size.
    """

    def __init__(self, function: PairFunction, first: QType, second: QType) -> None:
        """Take the function and the types of its operands.

        Args:
            function: Maps two arrays that broadcast to an array of the shape to which they do.
            first: Type of the first operand.
            second: Type of the second operand.
        """
        self._function, self._types = function, (first, second)
        self._table: NDArray[Any] | None = None
        self._requested_count = 0

    def __call__(self, first: IntArray, second: IntArray) -> NDArray[Any]:
        """Return the function's value at each pair of integers, in the shape to which the two broadcast."""
        if self._table is None:
            shape = np.broadcast_shapes(first.shape, second.shape)
            self._requested_count += math.prod(shape)
            if self._requested_count < PAIR_COUNT:
                pair = (
                    np.broadcast_to(q, shape).reshape(-1).astype(np.int64) for q in (first, second)
                )
                return self._function(*pair).reshape(shape)
            x, y = map(list_values, self._types)
            self._table = self._function(x[:, None], y).reshape(-1)
        high = first.view(np.uint8).astype(np.uint16)
        high <<= np.uint16(8)  # NumPy 1.26 takes a plain 8 for int64 beside an array without axes
        return self._table.take(high | second.view(np.uint8), mode="clip")
