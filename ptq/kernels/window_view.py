"""What the windows of some output rows read of one image: the framed part with padding, and views of its windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import DTypeLike, NDArray

from ptq.core.types import IntArray
from ptq.kernels.thread_pool import choose_tile_count, choose_worker_count, get_scratch_buffer
from ptq.kernels.window import WindowAxis

# Elements of a tile's largest buffer: 0.5 MiB of float32.
_TILE_ELEMENTS = 2**17

# Frames that a layer caches: those of its tiles, for a few sizes of images.
MAX_FRAMES = 64


def choose_window_rows_per_tile(images: int, rows: int, row_elements: int, work: float) -> int:
    """Return how many output rows of an image one tile computes, so that its largest buffer stays in the cache.

    Args:
        images: Number of images; each starts a tile of its own.
        rows: Output rows of an image.
        row_elements: Elements of the largest buffer for one row.
        work: Nanoseconds of the whole job.
    """
    tiles = min(rows, -(-rows * row_elements // _TILE_ELEMENTS))
    if images % choose_worker_count(work):
        tiles = choose_tile_count(tiles, rows, work)
    return -(-rows // tiles)


@dataclass(frozen=True, eq=False)
class Frame:
    """The part of an image that some output rows read, with its padding.

    Attributes:
        sizes: Spatial sizes of the part, padding included.
        source: Slices of the image that the part holds.
        interior: Slices of the part that hold them.
        borders: Slices of the part that hold padding.
    """

    sizes: tuple[int, ...]
    source: tuple[slice, ...]
    interior: tuple[slice, ...]
    borders: tuple[tuple[slice, ...], ...]


def get_frame_of_rows(axes: tuple[WindowAxis, ...], first: int, last: int) -> Frame:
    """Return the frame that the output rows [first, last) read."""
    spans = (
        axes[0].input_span(first, last),
        *(axis.input_span(0, axis.outputs) for axis in axes[1:]),
    )
    source: list[slice] = []
    inside: list[slice] = []
    borders: list[tuple[slice, ...]] = []
    for axis, (start, stop) in zip(axes, spans, strict=True):
        part = axis.clip_to_input((start, stop))
        for low, high in ((0, part.start - start), (part.stop - start, stop - start)):
            if low < high:
                borders.append((*inside, slice(low, high)))
        source.append(part)
        inside.append(slice(part.start - start, part.stop - start))
    sizes = tuple(stop - start for start, stop in spans)
    return Frame(sizes, tuple(source), tuple(inside), tuple(borders))


def pad_frame(
    x: IntArray, frame: Frame, offset: int, zero_point: int, real: DTypeLike = np.float32
) -> NDArray[Any]:
    """Return the framed part of one image (spatial…, C): x − offset with padding, as floats.

    Padding stands for the real number 0, so it holds zero_point − offset.
    """
    padded = get_scratch_buffer("padded", (*frame.sizes, x.shape[-1]), real)
    for border in frame.borders:
        padded[border] = zero_point - offset
    copy_minus_offset(x[frame.source], offset, padded[frame.interior])
    return padded


def copy_minus_offset(x: IntArray, offset: int | IntArray, out: NDArray[Any]) -> None:
    """Write x − offset as floats; exact, because no difference has more than 17 bits."""
    if isinstance(offset, int) and offset == 0:
        np.copyto(out, x)
    else:
        np.subtract(x, np.asarray(offset, out.dtype), out=out, dtype=out.dtype)


def view_windows(
    padded: NDArray[Any], axes: tuple[WindowAxis, ...], rows: int, group: int
) -> NDArray[Any]:
    """Return the windows of some output rows, without a copy: (group, rows, outputs…, taps…, C / group)."""
    *spatial, item = padded.strides
    inner = padded.shape[-1] // group
    return as_strided(
        padded,
        (group, rows, *(a.outputs for a in axes[1:]), *(a.kernel for a in axes), inner),
        (
            inner * item,
            *(a.stride * s for a, s in zip(axes, spatial, strict=True)),
            *(a.dilation * s for a, s in zip(axes, spatial, strict=True)),
            item,
        ),
        writeable=False,
    )
