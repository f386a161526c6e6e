"""What do the windows of some output rows see of one image?"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import DTypeLike, NDArray

from ptq.kernels.window import Axis
from ptq.kernels.workers import buffer
from ptq.types import IntArray


def pad(
    x: IntArray,
    axes: tuple[Axis, ...],
    first: int,
    last: int,
    offset: int,
    zero_point: int,
    real: DTypeLike = np.float32,
) -> NDArray[Any]:
    """What the output rows [first, last) see of one image (spatial…, C): x − offset, padded, as real numbers.

    Padding stands for the real number 0, so it holds zero_point − offset.
    """
    spans = (axes[0].inputs(first, last), *(axis.inputs(0, axis.outputs) for axis in axes[1:]))
    padded = buffer("padded", (*(stop - start for start, stop in spans), x.shape[-1]), real)
    source = []
    inside: list[slice] = []
    for axis, (start, stop) in zip(axes, spans, strict=True):
        part = axis.inside((start, stop))
        padded[(*inside, slice(0, part.start - start))] = zero_point - offset
        padded[(*inside, slice(part.stop - start, None))] = zero_point - offset
        source.append(part)
        inside.append(slice(part.start - start, part.stop - start))
    copy(x[tuple(source)], offset, padded[tuple(inside)])
    return padded


def copy(x: IntArray, offset: int | IntArray, out: NDArray[Any]) -> None:
    """Write x − offset into real numbers; exact, as no difference has more than 17 bits."""
    if isinstance(offset, int) and offset == 0:
        np.copyto(out, x)
    else:
        np.subtract(x, np.asarray(offset, out.dtype), out=out, dtype=out.dtype)


def windows(padded: NDArray[Any], axes: tuple[Axis, ...], rows: int, group: int) -> NDArray[Any]:
    """The windows of some output rows: (group, rows, outputs…, taps…, C / group), without a copy."""
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
