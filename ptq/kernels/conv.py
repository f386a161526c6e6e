"""Exact accumulators of a convolution, channels last, tile by tile so that a tile stays in the cache.

    acc[n, o…, m] = bias[m] + Σ (w[m, t…, i] − w_zero_point)·(x[n, o·stride − begin + t·dilation, i] − zero_point)

Padding stands for the real number 0 and adds nothing. There are three methods. A 1×1 convolution is a matrix product.
A depthwise convolution multiplies and adds tap by tap (`depthwise`). All other convolutions copy the windows of some
output rows into a matrix (im2col). `exact_blas` decides whether float32 is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import ModelError
from ptq.core.types import IntArray, QType
from ptq.kernels import exact_blas, window, window_view
from ptq.kernels.accumulate import OutputStage
from ptq.kernels.depthwise import prepare_depthwise_convolution
from ptq.kernels.matmul import prepare_matrix_product
from ptq.kernels.requantizer import Requantizer
from ptq.kernels.thread_pool import TiledOutput, get_scratch_buffer, run_tiles

Convolution = Callable[[IntArray, Requantizer], IntArray]


def prepare_convolution(
    w: IntArray,
    bias: NDArray[np.int32] | None,
    *,
    x_qtype: QType,
    x_zero_point: int,
    w_zero_point: IntArray | int = 0,
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    group: int = 1,
    auto_pad: str = "NOTSET",
) -> Convolution:
    """Prepare a convolution: pack its weights and return a function of an input and a requantizer.

    Args:
        w: Shape (O, spatial…, C / group), integers.
        bias: Shape (O,), in units of the accumulator, or None.
        x_qtype: Type of x, which has shape (N, spatial…, C).
        x_zero_point: Zero point of x.
        w_zero_point: One number, or one for each output channel.
        strides: One for each spatial axis; None means 1.
        pads: In ONNX's order, all begins and then all ends; None means 0.
        dilations: One for each spatial axis; None means 1.
        group: Number of groups of the input and output channels.
        auto_pad: NOTSET, VALID, SAME_UPPER or SAME_LOWER; resolved for each size of x.

    Raises:
        ModelError: Shapes and attributes do not fit each other.
    """
    if len(w) % group:
        raise ModelError(
            f"{len(w)} output channels do not divide into {group} groups; correct the node"
        )
    kernel = w.shape[1:-1]
    wide = subtract_weight_zero_point(w, w_zero_point)
    rank = len(kernel)
    if group == 1 and prod(kernel) == 1 and not any(pads or ()):
        return _prepare_pointwise(wide, bias, x_qtype, x_zero_point, strides or (1,) * rank)

    @lru_cache(maxsize=4)
    def axes_of(sizes: tuple[int, ...]) -> tuple[window.WindowAxis, ...]:
        """Return the windows in an image of that size."""
        return window.build_window_axes(
            sizes, kernel, strides=strides, pads=pads, dilations=dilations, auto_pad=auto_pad
        )

    if group > 1 and w.shape[-1] == 1 and rank <= 2:
        return prepare_depthwise_convolution(wide, bias, x_qtype, x_zero_point, group, axes_of)
    return _prepare_dense(wide, bias, x_qtype, x_zero_point, group, axes_of)


def subtract_weight_zero_point(w: IntArray, zero_point: IntArray | int) -> IntArray:
    """Return weights minus their zero point: one number, or one for each output channel (axis 0)."""
    zeros = np.asarray(zero_point, np.int64)
    return exact_blas.subtract_zero_points(w, zeros.reshape((-1,) + (1,) * (w.ndim - 1)))


def _prepare_pointwise(
    w: IntArray,
    bias: NDArray[np.int32] | None,
    x_qtype: QType,
    zero_point: int,
    strides: Sequence[int],
) -> Convolution:
    product = prepare_matrix_product(w.reshape(len(w), -1).T, bias, x_qtype, zero_point)
    step = (slice(None), *(slice(None, None, stride) for stride in strides))

    def convolve(x: IntArray, requantize: Requantizer) -> IntArray:
        window.check_channels(x, w.shape[-1])
        x = x[step]
        return product(x.reshape(-1, x.shape[-1]), requantize).reshape(*x.shape[:-1], len(w))

    return convolve


def _prepare_dense(
    w: IntArray,
    bias: NDArray[np.int32] | None,
    x_qtype: QType,
    zero_point: int,
    group: int,
    axes_of: window.AxesOfSizes,
) -> Convolution:
    outputs, *kernel, inner = w.shape
    taps, each = prod(kernel), outputs // group
    matrix = w.reshape(outputs, -1).T
    plan = exact_blas.plan_accumulation(matrix, bias, x_qtype.dtype, zero_point)
    packed = [
        exact_blas.pack(matrix[:, g * each : (g + 1) * each], plan.lo, plan.hi)
        for g in range(group)
    ]
    output_stage = OutputStage(plan)

    @lru_cache(maxsize=window_view.MAX_FRAMES)
    def frame_of(sizes: tuple[int, ...], first: int, last: int) -> window_view.Frame:
        return window_view.get_frame_of_rows(axes_of(sizes), first, last)

    def convolve(x: IntArray, requantize: Requantizer) -> IntArray:
        window.check_channels(x, group * inner)
        axes = axes_of(x.shape[1:-1])
        sizes = tuple(axis.outputs for axis in axes)
        across = prod(sizes[1:])
        row_count = len(x) * sizes[0] * across
        work = group * exact_blas.estimate_nanoseconds(row_count, taps * inner, each)
        row_elements = across * max(group * taps * inner, outputs)
        rows = window_view.choose_window_rows_per_tile(len(x), sizes[0], row_elements, work)
        bands = -(-sizes[0] // rows)
        out = TiledOutput((len(x), *sizes, outputs))

        def tile(i: int) -> None:
            n, band = divmod(i, bands)
            first, last = band * rows, min((band + 1) * rows, sizes[0])
            m = (last - first) * across
            frame = frame_of(x.shape[1:-1], first, last)
            padded = window_view.pad_frame(x[n], frame, plan.offset, zero_point)
            windows = window_view.view_windows(padded, axes, last - first, group)
            columns = get_scratch_buffer("columns", windows.shape)
            np.copyto(columns, windows)
            acc = get_scratch_buffer("acc", (m, outputs), output_stage.dtype)
            for g in range(group):
                left = columns[g].reshape(m, taps * inner)
                exact_blas.multiply_with_blas(left, packed[g], acc[:, g * each : (g + 1) * each])
            outputs_of_tile = output_stage.apply(acc, requantize)
            out[n, first:last] = outputs_of_tile.reshape(last - first, *sizes[1:], outputs)

        run_tiles(tile, len(x) * bands, work)
        return out.array

    return convolve
