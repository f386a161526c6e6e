"""Sparse constants of `.tflite` files as dense ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import ModelError
from ptq.model.proto.external_data import MAX_PROTO_BYTES
from ptq.model.tflite.schema import load_schema


def to_dense(values: NDArray[Any], shape: Sequence[int], sparsity: Any) -> NDArray[Any]:
    """All elements of a sparse constant; those that the file leaves out are 0.

    The file stores the elements along a tree of axes, in the order ``traversalOrder``. An axis is stored in full, or
    with the positions that each element of the axis before it has (compressed sparse rows). The last axes may be
    those within blocks, which are stored in full.

    Args:
        values: The stored elements.
        shape: The shape of all elements.
        sparsity: The schema's description of the stored elements.

    Raises:
        ModelError: The description does not fit the elements or the shape, or the shape is too large.
    """
    order, blocks = (
        [int(axis) for axis in _list(axes)] for axes in (sparsity.traversalOrder, sparsity.blockMap)
    )
    rank, size, levels = len(shape), math.prod(shape), _list(sparsity.dimMetadata)
    if (
        sorted(order) != [*range(len(levels))]
        or len(levels) != rank + len(blocks)
        or not {*blocks} <= {*range(rank)}
        or len({*blocks}) < len(blocks)
        or min(shape, default=0) < 1
    ):
        raise _build_error("has other axes than its shape")
    if size * values.itemsize > MAX_PROTO_BYTES:
        raise ModelError(
            f"the .tflite file has a sparse constant of shape {list(shape)}, too large to convert to a dense one; "
            "write a dense one"
        )
    places: list[NDArray[np.int64]] = []
    count = 1
    for level in levels:
        counts, there = _list_children(level, count, size)
        places = [*(np.repeat(place, counts) for place in places), there]
        count = len(there)
    if count != len(values):
        raise _build_error("has another number of elements than its positions")
    within = {axis: order.index(rank + block) for block, axis in enumerate(blocks)}
    if not all(_is_full(levels[number]) for number in within.values()):
        raise _build_error("has blocks that are not stored in full")
    index = []
    for axis, length in enumerate(shape):
        outer, width = order.index(axis), 1
        place = places[outer]
        if axis in within:
            width = levels[within[axis]].denseSize
            place = place * width + places[within[axis]]
        if _is_full(levels[outer]) and levels[outer].denseSize * width != length:
            raise _build_error("has an axis of another size than its shape")
        if ((place < 0) | (place >= length)).any():
            raise _build_error("has positions outside of its shape")
        index.append(place)
    dense, taken = np.zeros(shape, values.dtype), np.zeros(shape, np.bool_)
    dense[tuple(index)], taken[tuple(index)] = values, True
    if np.count_nonzero(taken) < count:
        raise _build_error("has two elements at one position")
    return dense


def _list_children(
    level: Any, parents: int, most: int
) -> tuple[NDArray[np.int64] | int, NDArray[np.int64]]:
    """How many elements a level has below each one before it, and the places of its elements along its axis.

    Args:
        level: The schema's description of the level.
        parents: The number of elements on the level before.
        most: The number of elements that a level has at most.

    Raises:
        ModelError: The level has more elements than this, or its lists do not fit each other.
    """
    if _is_full(level):
        size = int(level.denseSize)
        if not 0 < size * parents <= most:
            raise _build_error("has an axis of another size than its shape")
        return size, np.tile(np.arange(size), parents)
    segments, there = (
        np.asarray(_list(vector and vector.values), np.int64)
        for vector in (level.arraySegments, level.arrayIndices)
    )
    counts = np.diff(segments)
    if len(counts) != parents or segments[0] or (counts < 0).any() or segments[-1] != len(there):
        raise _build_error("has another number of positions than its segments say")
    return counts, there


def _is_full(level: Any) -> bool:
    return bool(level.format == load_schema().DimensionType.DENSE)


def _list(values: Any) -> Any:
    return () if values is None else values


def _build_error(what: str) -> ModelError:
    return ModelError(f"the .tflite file is damaged (a sparse constant {what}); write it again")
