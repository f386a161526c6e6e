"""Maxima and sums of the windows of a pool, channels last.

The windows are those of `build_window_axes`. Padding is never the maximum and adds nothing to a sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import FloatArray, IntArray
from ptq.kernels.window import WindowAxis


def compute_max_pool(x: IntArray, axes: Sequence[WindowAxis]) -> IntArray:
    """Return the greatest integer of every window of x (N, spatial…, C), in the same type."""
    for i, axis in enumerate(axes, start=1):
        x = _reduce_windows(x, i, axis, np.maximum, np.iinfo(x.dtype).min)
    return x


def compute_window_sums(
    x: IntArray, axes: Sequence[WindowAxis], *, count_include_pad: bool
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the sum of raw integers of every window of x (N, spatial…, C), and the number of taps that count.

    Returns:
        Sums (N, outputs…, C) over the taps inside the image, and counts (outputs…, 1) of these taps. With
        ``count_include_pad`` taps in the padding count too, but not taps beyond it (ONNX Runtime's AveragePool).
    """
    sums: NDArray[Any] = x.astype(np.int32)
    for i, axis in enumerate(axes, start=1):
        sums = _reduce_windows(sums, i, axis, np.add, 0)
    return sums, _count_taps(axes, count_include_pad)


def compute_sequential_window_sums(
    values: FloatArray, axes: Sequence[WindowAxis], *, count_include_pad: bool = False
) -> tuple[FloatArray, NDArray[np.int32]]:
    """Return the float32 sum of every window, added tap after tap in row-major order, and its count.

    ONNX Runtime's QLinearAveragePool adds dequantized values in this order. float32 rounds after every addition, so
    the order changes the result. Padding adds nothing.

    Returns:
        Sums (N, outputs…, C), and counts (outputs…, 1): the taps inside the image. With ``count_include_pad`` all
        taps of the window count, even those that ceil mode puts beyond the padding.
    """
    padded = np.asarray(values, np.float32)
    for i, axis in enumerate(axes, start=1):
        padded = _pad_axis(padded, i, axis, 0)
    sums: FloatArray = np.zeros(
        (len(values), *(a.outputs for a in axes), values.shape[-1]), np.float32
    )
    for tap in np.ndindex(*(axis.kernel for axis in axes)):
        np.add(sums, padded[(slice(None), *map(_compute_tap_slice, axes, tap))], out=sums)
    counts = _count_taps(axes, False)
    return sums, np.full_like(
        counts, prod(axis.kernel for axis in axes)
    ) if count_include_pad else counts


def _compute_tap_slice(axis: WindowAxis, tap: int) -> slice:
    """Return where tap number ``tap`` of all windows lies in the padded input."""
    first = tap * axis.dilation
    return slice(first, first + (axis.outputs - 1) * axis.stride + 1, axis.stride)


def _pad_axis(x: NDArray[Any], position: int, axis: WindowAxis, fill: int) -> NDArray[Any]:
    """Return the input with all positions that its windows read along one axis, from the first one on."""
    behind = max((axis.outputs - 1) * axis.stride + axis.extent - axis.begin - axis.size, 0)
    x = x[(*(slice(None),) * position, slice(max(-axis.begin, 0), None))]
    if axis.begin <= 0 and behind == 0:
        return x
    widths = [(0, 0)] * x.ndim
    widths[position] = (max(axis.begin, 0), behind)
    return np.pad(x, widths, constant_values=fill)


def _reduce_windows(
    x: NDArray[Any], position: int, axis: WindowAxis, ufunc: np.ufunc, fill: int
) -> NDArray[Any]:
    """Reduce the windows along one axis: maxima and integer sums are separable."""
    padded = _pad_axis(x, position, axis, fill)
    before = (slice(None),) * position
    out: NDArray[Any] = padded[(*before, _compute_tap_slice(axis, 0))].copy()
    for tap in range(1, axis.kernel):
        ufunc(out, padded[(*before, _compute_tap_slice(axis, tap))], out=out)
    return out


def _count_taps(axes: Sequence[WindowAxis], include_pad: bool) -> NDArray[np.int32]:
    """Return the number of taps of every window that count, shape (outputs…, 1)."""
    total = np.ones((1,) * len(axes), np.int32)
    for i, axis in enumerate(axes):
        starts = np.arange(axis.outputs) * axis.stride - axis.begin
        taps = starts[:, None] + np.arange(axis.kernel) * axis.dilation
        inside = (taps >= 0) & (taps < axis.size)
        if include_pad:
            inside = taps < axis.size + axis.end
        shape = [1] * len(axes)
        shape[i] = -1
        total = total * inside.sum(1, dtype=np.int32).reshape(shape)
    return total[..., None]
