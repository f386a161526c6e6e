"""Rearrangement of arrays by ONNX's rules for axes and bounds; channels last if depth is concerned."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_GREATEST = tuple(int(np.iinfo(dtype).max) for dtype in (np.int32, np.int64))


def reshape(x: Array, shape: Sequence[int], allow_zero: bool = False) -> Array:
    """Reshape as ONNX does: −1 takes the rest; 0 keeps the input's dimension unless ``allow_zero``."""
    kept = [x.shape[i] if d == 0 and not allow_zero else d for i, d in enumerate(shape)]
    return x.reshape(kept)


def flatten(x: Array, axis: int) -> Array:
    """Reshape to two dimensions: the product of those before the axis, and of the rest."""
    split = axis % x.ndim if axis < 0 else axis
    return x.reshape(prod(x.shape[:split]), prod(x.shape[split:]))


def slice_axes(
    x: Array,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None,
    steps: Sequence[int] | None,
) -> Array:
    """Slice as ONNX Runtime does, by `make_slice`."""
    index = [slice(None)] * x.ndim
    along = range(len(starts)) if axes is None else axes
    strides = (1,) * len(starts) if steps is None else steps
    for axis, start, end, step in zip(along, starts, ends, strides, strict=True):
        index[axis] = make_slice(start, end, step, x.shape[axis])
    return np.ascontiguousarray(x[tuple(index)])


def make_slice(start: int, end: int, step: int, size: int) -> slice:
    """Return the part of an axis that ONNX Runtime's Slice takes, in Python's terms.

    Args:
        start: First position; below −size it is the first element.
        end: Position behind the last one. With a negative step, an end below −size lies before the first element, and
            so does the greatest int32 or int64, against the specification.
        step: Distance between two positions.
        size: Elements along the axis.
    """
    takes_first = step < 0 and (end < -size or end in _GREATEST)
    return slice(max(start, -size), None if takes_first else end, step)


def split_part(x: Array, axis: int, sizes: Sequence[int] | None, count: int, index: int) -> Array:
    """Return one output of Split: of the given sizes, or of ``count`` equal sizes, the last one smaller.

    An empty list of sizes means equal sizes, as in ONNX Runtime.
    """
    length = x.shape[axis]
    each = -(-length // count)
    ends = (
        np.cumsum(sizes)
        if sizes is not None and len(sizes)
        else np.minimum(np.arange(1, count + 1) * each, length)
    )
    begin = int(ends[index - 1]) if index else 0
    chosen = [slice(None)] * x.ndim
    chosen[axis] = slice(begin, int(ends[index]))
    return np.ascontiguousarray(x[tuple(chosen)])


def pad(x: Array, pads: Sequence[int], axes: Sequence[int] | None, mode: str, value: int) -> Array:
    """Pad as ONNX does: all begins, then all ends, of the axes (None: all); negative pads crop."""
    along = range(x.ndim) if axes is None else axes
    half = len(pads) // 2
    before, after = [0] * x.ndim, [0] * x.ndim
    for axis, begin, end in zip(along, pads[:half], pads[half:], strict=True):
        before[axis], after[axis] = begin, end
    kept = tuple(
        slice(max(-b, 0), size - max(-e, 0))
        for size, b, e in zip(x.shape, before, after, strict=True)
    )
    width = [(max(b, 0), max(e, 0)) for b, e in zip(before, after, strict=True)]
    if mode == "constant":
        return np.pad(x[kept], width, mode="constant", constant_values=value)
    wide: Array = np.pad(x[kept], width, mode=mode)  # type: ignore[call-overload]
    return wide


def move_depth_to_space(x: Array, block: int, mode: str) -> Array:
    """Return (N, H, W, b·b·C) as (N, bH, bW, C); in ``DCR`` the block is the slower part of the depth."""
    n, h, w, depth = x.shape
    channels = depth // (block * block)
    if mode == "DCR":
        parts = x.reshape(n, h, w, block, block, channels).transpose(0, 1, 3, 2, 4, 5)
    else:
        parts = x.reshape(n, h, w, channels, block, block).transpose(0, 1, 4, 2, 5, 3)
    return np.ascontiguousarray(parts).reshape(n, h * block, w * block, channels)


def move_space_to_depth(x: Array, block: int) -> Array:
    """Return (N, bH, bW, C) as (N, H, W, b·b·C); the block is the slower part of the depth."""
    n, h, w, channels = x.shape
    parts = x.reshape(n, h // block, block, w // block, block, channels)
    permuted = np.ascontiguousarray(parts.transpose(0, 1, 3, 2, 4, 5))
    return permuted.reshape(n, h // block, w // block, block * block * channels)


def move_space_to_batch(
    x: Array, block: Sequence[int], paddings: Sequence[Sequence[int]], value: int
) -> Array:
    """Pad axes 1, 2, … and put the positions of each block into the batch, the first position slowest."""
    rank = len(block)
    rest = [(0, 0)] * (x.ndim - 1 - rank)
    width = [(0, 0), *((int(b), int(e)) for b, e in paddings), *rest]
    x = np.pad(x, width, constant_values=value)
    parts = [n for size, b in zip(x.shape[1:], block, strict=False) for n in (size // b, b)]
    split = x.reshape(x.shape[0], *parts, *x.shape[1 + rank :])
    positions, sizes = range(2, 2 * rank + 1, 2), range(1, 2 * rank, 2)
    permuted = split.transpose(*positions, 0, *sizes, *range(1 + 2 * rank, split.ndim))
    return np.ascontiguousarray(permuted).reshape(-1, *permuted.shape[rank + 1 :])


def move_batch_to_space(x: Array, block: Sequence[int], crops: Sequence[Sequence[int]]) -> Array:
    """Put the block positions of a batch back to axes 1, 2, … and crop these: inverse of `move_space_to_batch`."""
    rank = len(block)
    split = x.reshape(*block, x.shape[0] // prod(block), *x.shape[1:])
    order = [rank, *(a for i in range(rank) for a in (rank + 1 + i, i))]
    permuted = np.ascontiguousarray(split.transpose(*order, *range(2 * rank + 1, split.ndim)))
    sizes = [size * b for size, b in zip(x.shape[1:], block, strict=False)]
    joined_blocks = permuted.reshape(permuted.shape[0], *sizes, *x.shape[1 + rank :])
    kept = [slice(int(b), n - int(e)) for (b, e), n in zip(crops, sizes, strict=True)]
    return np.ascontiguousarray(joined_blocks[(slice(None), *kept)])
