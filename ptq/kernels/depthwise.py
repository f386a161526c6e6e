"""What does a depthwise convolution accumulate, where every output channel sees one input channel?

With channels last, the outputs of one row lie in memory as (column, channel), and so do the inputs that tap t of
their windows sees: a row is Σ over taps of the product of two vectors, weights repeated along the columns. einsum
does all taps of many rows in one call, multiplication and addition in one loop, and lets go of the interpreter
lock meanwhile: 0.14 ns a multiplication, against 0.24 with numpy's multiply and add tap by tap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from ptq.errors import ModelError
from ptq.kernels import exact, window
from ptq.kernels.finish import Finish
from ptq.kernels.workers import Output, buffer, run, threads
from ptq.types import IntArray, QType

# Elements of a tile's accumulator, and of its repeated weights: together about 512 KiB of float32.
_TILE = 2**16


def depthwise(
    w: exact.Whole,
    bias: NDArray[np.int32] | None,
    x_qtype: QType,
    zero_point: int,
    channels: int,
    geometry: dict[str, Any],
) -> Callable[[IntArray, Finish], IntArray]:
    """Prepare a 1-D or 2-D convolution with as many groups as input channels.

    Args:
        w: Shape (O, spatial…, 1), O a multiple of the channels, the weights' zero point subtracted.
        bias: Shape (O,) or None.
        x_qtype: Of the input.
        zero_point: Of the input.
        channels: Of the input.
        geometry: Strides, pads, dilations and auto_pad, for `window.axes`.
    """
    outputs, *kernel, _ = w.shape
    multiplier = outputs // channels
    plan = exact.plan(w.reshape(outputs, -1).T, bias, x_qtype.dtype, zero_point)
    # Beyond float32 (more than 500 taps) float64 is exact: |w·x| < 2^17, so it takes 2^36 taps to reach 2^53.
    real = np.dtype(np.float32 if plan.exact else np.float64)
    accumulator = np.dtype(np.float32 if plan.exact else np.int32)
    taps = w.reshape(outputs, *(1,) * (2 - len(kernel)), *kernel).transpose(1, 2, 0).astype(real)
    rest = plan.bias.astype(accumulator)

    def convolve(x: IntArray, finish: Finish) -> IntArray:
        if x.shape[-1] != channels:
            raise ModelError(
                f"a convolution of {channels} input channels got {x.shape[-1]}; check the input's layout"
            )
        found = window.axes(x.shape[1:-1], kernel, **geometry)
        shape = (len(x), *(axis.outputs for axis in found), outputs)
        if x.ndim == 3:
            x = x[:, None]
            found = (window.Axis(1, 1, 1, 1, 0, 0, 1), *found)
        vertical, across = found
        wide = across.outputs
        # Channels in blocks whose repeated weights stay in the cache, then rows.
        block = max(1, _TILE // (len(taps) * taps.shape[1] * wide * multiplier))
        block = -(-channels // -(-channels // block))
        blocks = -(-channels // block)
        rows = max(1, _TILE // (wide * block * multiplier))
        rows = -(-vertical.outputs // -(-vertical.outputs // rows))
        if len(x) * blocks < threads():
            rows = min(rows, -(-vertical.outputs // threads()))
        bands = -(-vertical.outputs // rows)
        out = Output((len(x), vertical.outputs, wide, outputs))

        def tile(i: int) -> None:
            n, i = divmod(i, blocks * bands)
            number, band = divmod(i, bands)
            c = slice(number * block, min((number + 1) * block, channels))
            m = slice(c.start * multiplier, c.stop * multiplier)
            first, last = band * rows, min((band + 1) * rows, vertical.outputs)
            length = wide * (m.stop - m.start)
            weights = buffer("weights", (*taps.shape[:2], wide, m.stop - m.start), real)
            np.copyto(weights, taps[:, :, None, m])
            seen = _seen(x[n, :, :, c], found, first, last, multiplier, plan, zero_point, real)
            acc = buffer("acc", (last - first, length), real)
            np.einsum("hijx,ijx->hx", seen, weights.reshape(*taps.shape[:2], length), out=acc)
            if not plan.exact:
                acc = acc.astype(np.int64).astype(np.int32)
            acc += np.tile(rest[m], wide)
            out[n, first:last, :, m] = finish(acc.reshape(last - first, wide, -1), m)

        run(tile, len(x) * blocks * bands)
        return out.array.reshape(shape)

    return convolve


def _seen(
    x: IntArray,
    axes: tuple[window.Axis, ...],
    first: int,
    last: int,
    multiplier: int,
    plan: exact.Sum,
    zero_point: int,
    real: np.dtype[Any],
) -> NDArray[Any]:
    """What each tap sees for the output rows [first, last): (rows, kh, kw, columns · channels)."""
    vertical, across = axes
    top, bottom = span = vertical.inputs(first, last)
    left, right = across.inputs(0, across.outputs)
    step, wide, channels = across.stride, across.outputs, x.shape[-1]
    # With stride 1 the taps of a row overlap in memory; otherwise each gets a row of its own.
    copies = 1 if step == 1 else across.kernel
    width = right - left if step == 1 else wide
    padded = buffer("padded", (copies, bottom - top, width, channels, multiplier), real)
    rows = vertical.inside(span)
    edge = top < 0 or left < 0 or bottom > vertical.size or right > across.size
    if edge:
        padded.fill(zero_point - plan.offset)
    for copy in range(copies):
        start = left + copy * across.dilation
        begin = -(min(start, 0) // step)
        count = min(width, -(-(across.size - start) // step))
        if count <= begin:
            continue
        columns = slice(start + begin * step, start + (count - 1) * step + 1, step)
        target = padded[copy, rows.start - top : rows.stop - top, begin:count]
        source = x[rows, columns, :, None]
        if plan.offset:
            np.subtract(source, real.type(plan.offset), out=target, dtype=real)
        else:
            np.copyto(target, source)
    item = real.itemsize
    plane, row, column = padded.strides[:3]
    tap = across.dilation * column if step == 1 else plane
    return as_strided(
        padded,
        (last - first, vertical.kernel, across.kernel, wide * channels * multiplier),
        (vertical.stride * row, vertical.dilation * row, tap, item),
        writeable=False,
    )
