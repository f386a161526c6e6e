"""Sparse constants of `.tflite` files as dense ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def to_dense(values: NDArray[Any], shape: Sequence[int], sparsity: Any) -> NDArray[Any]:
    """All elements of a sparse constant; those that the file leaves out are 0.

    The file stores the elements along a tree of axes, in the order ``traversalOrder``. An axis is stored in full, or
    with the positions that each element of the axis before it has (compressed sparse rows). The last axes may be
    those within blocks.

    Args:
        values: The stored elements.
        shape: The shape of all elements.
        sparsity: The schema's description of the stored elements.

    Raises:
        ValueError: The description does not fit the elements or the shape.
        IndexError: The same, in a list of positions.
    """
    order = [int(axis) for axis in sparsity.traversalOrder]
    rank, levels = len(shape), sparsity.dimMetadata
    places: list[NDArray[np.int64]] = []
    parents = np.zeros(1, np.int64)  # of each element so far, its number on the level before
    for level in levels:
        counts, parents, there = _list_children(level, parents)
        places = [*(np.repeat(place, counts) for place in places), there]
    if sorted(order) != [*range(len(levels))] or len(parents) != len(values):
        raise ValueError("a sparse constant has another number of elements than its positions")
    index = [places[order.index(axis)] for axis in range(rank)]
    for block, axis in enumerate(() if sparsity.blockMap is None else sparsity.blockMap):
        within = order.index(rank + block)
        index[axis] = index[axis] * levels[within].denseSize + places[within]
    dense = np.zeros(shape, values.dtype)
    dense[tuple(index)] = values
    return dense


def _list_children(
    level: Any, parents: NDArray[np.int64]
) -> tuple[NDArray[np.int64] | int, NDArray[np.int64], NDArray[np.int64]]:
    """How many elements a level has below each one before it; their numbers, and their places along its axis."""
    if level.arraySegments is None:
        size = int(level.denseSize)
        there = np.tile(np.arange(size), len(parents))
        return size, np.repeat(parents, size) * size + there, there
    segments = np.asarray(level.arraySegments.values, np.int64)
    starts, counts = segments[parents], segments[parents + 1] - segments[parents]
    firsts = np.cumsum(counts) - counts
    numbers = np.repeat(starts - firsts, counts) + np.arange(counts.sum())
    return counts, numbers, np.asarray(level.arrayIndices.values, np.int64)[numbers]
