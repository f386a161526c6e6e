"""Large weights of a model that stay in their file: the system reads them when they are needed.

Memory holds each weight at most once more, in a session that copies it. ONNX Runtime maps such files too.
"""

from __future__ import annotations

import mmap
import sys
from math import prod
from pathlib import Path
from weakref import WeakSet

import numpy as np
import onnx
import onnx_ir as ir

from ptq.model.proto.weight_files import find_weights

_ALIGNMENT = 16
"""Bytes to which numpy and ONNX Runtime align weights in memory."""
_LEAST_BYTES = 2**26
"""Bytes from which on a weight stays in its file: a small file may be overwritten while ptq runs."""


class MappedWeight(ir.Tensor[np.ndarray]):
    """A weight in a file, mapped into memory for reading."""

    def __init__(self, path: Path, offset: int, dtype: ir.DataType, shape: ir.Shape, name: str):
        """Map the file.

        Raises:
            OSError: The file cannot be read.
            ValueError: It is too short.
        """
        with path.open("rb") as file:
            self._file = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        dimensions = shape.numpy()
        values = np.frombuffer(self._file, dtype.numpy(), prod(dimensions), offset)
        self._start = offset - offset % mmap.PAGESIZE
        self._length = offset + values.nbytes - self._start
        super().__init__(values.reshape(dimensions), dtype=dtype, shape=shape, name=name)
        _MAPPED.add(self)

    def release_pages(self) -> None:
        """Give the memory of what was read back to the system, which maps it again at the next read."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._file.madvise(mmap.MADV_DONTNEED, self._start, self._length)

    def __reduce__(self) -> tuple[object, ...]:
        """A plain tensor in another process: the file may not be there."""
        return ir.Tensor, (np.array(self.numpy()), self.dtype)


def map_weight(tensor: onnx.TensorProto, model: Path) -> MappedWeight | None:
    """A tensor of another file, left there; None if it is small, or does not lie in the file as in memory.

    Args:
        tensor: The tensor.
        model: Path of the model.

    Raises:
        ModelError, OSError: See `find_weights`.
    """
    dtype = ir.DataType(tensor.data_type)
    size = dtype.bitwidth * prod(tensor.dims) // 8
    if size < _LEAST_BYTES or dtype.bitwidth < 8 or sys.byteorder != "little":
        return None
    place = find_weights(tensor, model, size)
    if place.offset % _ALIGNMENT or place.length != size:
        return None
    try:
        return MappedWeight(place.path, place.offset, dtype, ir.Shape(tensor.dims), tensor.name)
    except OSError:  # a file system without mapping
        return None


def release_mapped_pages() -> None:
    """Give the memory of all mapped weights back to the system."""
    for weight in list(_MAPPED):
        weight.release_pages()


_MAPPED = WeakSet[MappedWeight]()
