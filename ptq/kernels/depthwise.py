"""Exact accumulators of a depthwise convolution: every output channel reads one input channel.

With channels last, the outputs of one row lie in memory as (column, channel). So do the inputs that tap t of their
windows reads. A run of outputs is Σ over taps of the product of two vectors, with weights repeated along the columns.
einsum computes all taps of many runs in one call, with one loop that multiplies and adds. It releases the interpreter
lock meanwhile. One multiplication takes 0.14 ns, against 0.24 ns with numpy's multiply and add for each tap. Runs are
short, so that accumulators and weights stay in the first cache.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import IntArray, QType
from ptq.kernels import exact_blas, window, window_view
from ptq.kernels.accumulate import OutputStage
from ptq.kernels.requantizer import Requantizer
from ptq.kernels.thread_pool import TiledOutput, get_scratch_buffer, run_tiles

# Elements of a run: enough to hide the overhead of a loop, few enough that accumulators stay in the first cache.
_SHORTEST_RUN = 2**10
_LONGEST_RUN = 2**13


def prepare_depthwise_convolution(
    w: IntArray,
    bias: NDArray[np.int32] | None,
    x_qtype: QType,
    zero_point: int,
    channels: int,
    axes_of: window.AxesOfSizes,
) -> Callable[[IntArray, Requantizer], IntArray]:
    """Prepare a 1-D or 2-D convolution with as many groups as input channels.

    Args:
        w: Shape (O, spatial…, 1), zero point subtracted; O is a multiple of ``channels``.
        bias: Shape (O,) or None.
        x_qtype: Type of the input.
        zero_point: Zero point of the input.
        channels: Number of input channels.
        axes_of: Returns the windows in an image of that size.
    """
    outputs, *kernel, _ = w.shape
    multiplier = outputs // channels
    plan = exact_blas.plan_accumulation(w.reshape(outputs, -1).T, bias, x_qtype.dtype, zero_point)
    # Beyond float32 (more than 250 taps) float64 is exact: |w·x| < 2^17, so 2^36 taps are needed to reach 2^53.
    real = np.dtype(np.float32 if plan.exact else np.float64)
    output_stage = OutputStage(plan)
    # A 1-D signal is a column; as a row its repeated weights would be as long as the whole signal.
    taps = w.reshape(outputs, *kernel, *(1,) * (2 - len(kernel))).transpose(1, 2, 0)
    taps = np.ascontiguousarray(taps, real)

    @lru_cache(maxsize=4)
    def repeat_taps(columns: int) -> NDArray[Any]:
        """Return the weights of a run of some columns, shape (kh, kw, columns · O)."""
        return np.tile(taps, columns)

    @lru_cache(maxsize=4)
    def axes_and_runs(
        sizes: tuple[int, ...],
    ) -> tuple[tuple[window.WindowAxis, window.WindowAxis], list[tuple[int, int, int]]]:
        """Return the windows in an image of that size, and the runs of an output row."""
        found = axes_of(sizes)
        across = found[1] if len(found) > 1 else window.WindowAxis(1, 1, 1, 1, 0, 0, 1)
        return (found[0], across), _split_row(across, outputs)

    @lru_cache(maxsize=window_view.MAX_FRAMES)
    def frame_of(sizes: tuple[int, ...], first: int, last: int) -> window_view.Frame:
        axes, _ = axes_and_runs(sizes)
        return window_view.get_frame_of_rows(axes if axes[1].stride == 1 else axes[:1], first, last)

    def convolve(x: IntArray, requantize: Requantizer) -> IntArray:
        window.check_channels(x, channels)
        sizes = x.shape[1:-1]
        axes, runs = axes_and_runs(sizes)
        vertical, across = axes
        high, wide = vertical.outputs, across.outputs
        shape = (len(x), *(high, wide)[: len(sizes)], outputs)
        if x.ndim == 3:
            x = x[:, :, None]
        copies = across.kernel if across.stride > 1 else 1
        # The products, and conversion, bias and requantization of every output.
        work = prod(shape) * (0.14 * taps[..., 0].size + 1.5)
        rows = window_view.choose_window_rows_per_tile(len(x), high, wide * outputs * copies, work)
        bands = -(-high // rows)
        out = TiledOutput((len(x), high, wide, outputs))

        def tile(i: int) -> None:
            n, band = divmod(i, bands)
            first, last = band * rows, min((band + 1) * rows, high)
            image = x[n] if multiplier == 1 else np.repeat(x[n], multiplier, -1)
            seen = _view_taps(image, axes, frame_of(sizes, first, last), plan, zero_point, real)
            acc = get_scratch_buffer("acc", (last - first, wide * outputs), real)
            for start, count, columns in runs:
                length = columns * outputs
                part = slice(start * outputs, start * outputs + count * length)
                left = seen[..., part].reshape(*seen.shape[:3], count, length)
                into = acc[:, part].reshape(-1, count, length)
                np.einsum("hijrx,ijx->hrx", left, repeat_taps(columns), out=into)
            total = acc.reshape(-1, outputs)
            if not plan.exact:
                total = total.astype(np.int64).astype(np.int32)
            out[n, first:last] = output_stage.apply(total, requantize).reshape(-1, wide, outputs)

        run_tiles(tile, len(x) * bands, work)
        return out.array.reshape(shape)

    return convolve


def _split_row(across: window.WindowAxis, channels: int) -> list[tuple[int, int, int]]:
    """Cut a row into runs: first column, number of runs, columns of each run.

    The runs are equal, except for the last one if only too long runs divide the row. Taps that overlap (stride 1)
    stay in the first cache if runs are short. Other taps are streamed; long runs are best for them.
    """
    wide = across.outputs
    whole = [c for c in range(1, wide + 1) if wide % c == 0]
    short = [c for c in whole if c * channels <= _LONGEST_RUN]
    columns = next((c for c in whole if c * channels >= _SHORTEST_RUN), wide)
    if across.stride > 1 and short:
        columns = short[-1]
    if columns > 1 and columns * channels > _LONGEST_RUN:
        columns = -(-wide // -(-wide * channels // _LONGEST_RUN))
    count, rest = divmod(wide, columns)
    return [(0, count, columns), *([(wide - rest, 1, rest)] if rest else [])]


def _view_taps(
    x: IntArray,
    axes: tuple[window.WindowAxis, window.WindowAxis],
    frame: window_view.Frame,
    plan: exact_blas.AccumulationPlan,
    zero_point: int,
    real: np.dtype[Any],
) -> NDArray[Any]:
    """Return what each tap reads for the framed output rows: (rows, kh, kw, columns · channels)."""
    vertical, across = axes
    if across.stride == 1:
        padded = window_view.pad_frame(x, frame, plan.offset, zero_point, real)
        row, column, item = padded.strides
        tap = across.dilation * column
    else:
        padded = _copy_columns_by_tap(x, across, frame, plan, zero_point, real)
        row, tap, _, item = padded.strides
    rows = (len(padded) - vertical.extent) // vertical.stride + 1
    # as_strided does the same through Python's array interface and takes 3 µs more for each tile.
    return np.ndarray(
        (rows, vertical.kernel, across.kernel, across.outputs * x.shape[-1]),
        real,
        padded.data,
        strides=(vertical.stride * row, vertical.dilation * row, tap, item),
    )


def _copy_columns_by_tap(
    x: IntArray,
    across: window.WindowAxis,
    frame: window_view.Frame,
    plan: exact_blas.AccumulationPlan,
    zero_point: int,
    real: np.dtype[Any],
) -> NDArray[Any]:
    """Return the columns that each tap reads, tap after tap: (input rows, kw, columns, C)."""
    padded = get_scratch_buffer(
        "padded", (*frame.sizes, across.kernel, across.outputs, x.shape[-1]), real
    )
    for border in frame.borders:
        padded[border] = zero_point - plan.offset
    inside, seen = padded[frame.interior], x[frame.source]
    step = across.stride
    for tap in range(across.kernel):
        start = tap * across.dilation - across.begin
        low = min(-(min(start, 0) // step), across.outputs)
        high = max(min(-(-(across.size - start) // step), across.outputs), low)
        if low:
            inside[:, tap, :low] = zero_point - plan.offset
        if high < across.outputs:
            inside[:, tap, high:] = zero_point - plan.offset
        if low < high:
            columns = slice(start + low * step, start + (high - 1) * step + 1, step)
            window_view.copy_minus_offset(seen[:, columns], plan.offset, inside[:, tap, low:high])
    return padded
