"""A large weight with scaled channels: it takes no memory of its own, but time whenever it is read.

A race between forms of a model would otherwise hold all weights once more for each form.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

_LEAST_BYTES = 2**26
"""Bytes of a float32 weight from which on it is computed when it is read: reading 64 MB takes 0.2 s then."""


class ScaledWeight(ir.LazyTensor):
    """The values of a scaled weight in float32, computed when they are read. All who hold them share them."""

    def __init__(self, shape: tuple[int, ...], scale: Callable[[], NDArray[Any]]) -> None:
        """Take the weight's shape and the function that computes its values."""
        super().__init__(self._read, ir.DataType.FLOAT, ir.Shape(shape))
        self._scale = scale
        self._held: Callable[[], NDArray[np.float32] | None] = lambda: None

    def _read(self) -> ir.TensorProtocol:
        values = self._held()
        if values is None:
            values = self._scale().astype(np.float32, copy=False)
            self._held = weakref.ref(values)
        return ir.Tensor(values)


def scale_constant(
    shape: tuple[int, ...], scale: Callable[[], NDArray[Any]]
) -> NDArray[Any] | ScaledWeight:
    """The scaled values in float32; those of a large weight are computed when they are read."""
    if 4 * int(np.prod(shape)) >= _LEAST_BYTES:
        return ScaledWeight(shape, scale)
    return scale().astype(np.float32, copy=False)
