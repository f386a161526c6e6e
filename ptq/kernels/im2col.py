"""Convolution as a matrix product of raw integers (im2col), for arithmetics with their own accumulation.

Every window of a channels-last x is one row of a matrix. Its columns run over the window's positions, and fastest
over the channels. ONNX Runtime sums in this order. `conv` and `matmul` compute exact sums only.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ptq.core.errors import ModelError
from ptq.kernels import window


def multiply_exactly(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.int64]:
    """Return the matrix product of integers; exact while Σ|a·b| < 2^53, which is 2^37 products of two bytes."""
    product: NDArray[np.int64] = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64)
    return product


def im2col(
    x: NDArray[Any], kernel: Sequence[int], group: int, fill: int, **geometry: Any
) -> tuple[NDArray[Any], tuple[int, ...]]:
    """Return the windows of x as rows.

    Args:
        x: Shape (N, spatial…, C).
        kernel: Number of taps of the window along each spatial axis.
        group: Number of groups of the channels.
        fill: Value of the padding.
        geometry: strides, pads, dilations and auto_pad, for `build_window_axes`.

    Returns:
        Rows (group, N · outputs, taps · C / group), and the sizes of the output.

    Raises:
        ModelError: The channels do not divide into the groups, or the geometry does not fit.
    """
    if x.shape[-1] % group:
        raise ModelError(
            f"{x.shape[-1]} channels do not divide into {group} groups; correct the node"
        )
    axes = window.build_window_axes(x.shape[1:-1], kernel, **geometry)
    spatial = range(1, x.ndim - 1)
    widths = [(0, 0)] * x.ndim
    for position, axis in zip(spatial, axes, strict=True):
        reach = (axis.outputs - 1) * axis.stride + axis.extent - axis.begin - axis.size
        widths[position] = (axis.begin, max(reach, 0))
    padded = np.pad(x, widths, constant_values=fill)
    views = sliding_window_view(padded, [axis.extent for axis in axes], axis=tuple(spatial))
    steps = tuple(slice(0, (a.outputs - 1) * a.stride + 1, a.stride) for a in axes)
    taps = tuple(slice(None, None, a.dilation) for a in axes)
    # (N, outputs…, C, taps…)
    views = views[(slice(None), *steps, slice(None), *taps)]
    rank = len(axes)
    sizes = tuple(axis.outputs for axis in axes)
    grouped = views.reshape(*views.shape[: rank + 1], group, -1, *views.shape[rank + 2 :])
    order = (rank + 1, *range(rank + 1), *range(rank + 3, 2 * rank + 3), rank + 2)
    rows = grouped.transpose(order).reshape(group, len(x) * prod(sizes), -1)
    return rows, sizes
