"""How does LiteRT turn an accumulator into an integer, and how does numpy do it at the speed of float32?

Almost everywhere every way of rounding acc · M agrees with float32's; they part only near ties. So a tile is
rounded in float32, and the few elements within ``window`` of a tie are computed again by the exact rule.

The window. gemmlowp rounds t = acc · M · 2^e to an integer h, |h − t| ≤ 1/2, and then h / 2^e to the nearest: the
result is that of acc · M unless a tie lies within 2^−(e+1). float32 adds three relative errors of 2^−24 (M, the
accumulator, the product) to a value that is clamped to |v| ≤ 2^9, less than 2^−14 · 3/2; 2^−13 covers it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.arithmetics.operands import bounds, result
from ptq.arithmetics.site import Site
from ptq.kernels.finish import Accumulator, Channels, Finish
from ptq.kernels.fixedpoint import multiply, quantize_multiplier
from ptq.kernels.float32 import round_half_away
from ptq.types import IntArray

_FLOAT32_ERROR = 2.0**-13

Exact = Callable[[NDArray[np.int64], NDArray[np.intp]], NDArray[Any]]
"""acc · M, rounded, for accumulators and the channel of each."""


def gemmlowp_finish(site: Site, real: float | NDArray[np.float64]) -> Finish:
    """Zo + MBQM(acc, real[c]), clamped; ``real`` per tensor or per channel."""
    multiplier, shift = quantize_multiplier(_per_tensor_or_channel(real))
    effective = np.ldexp(multiplier.astype(np.float64), (shift - 31).astype(np.int32))
    window = np.ldexp(0.5, np.minimum(shift, 0).astype(np.int32))

    def exact(acc: NDArray[np.int64], channel: NDArray[np.intp]) -> NDArray[Any]:
        if multiplier.ndim == 0:
            return multiply(acc, multiplier, shift)
        return multiply(acc, multiplier[channel], shift[channel])

    return _finish(site, np.asarray(effective), np.asarray(window), exact)


def real_finish(site: Site, real: float | NDArray[np.float64]) -> Finish:
    """Zo + round_half_away(acc · real[c]) in float64, clamped; ``real`` per tensor or per channel."""
    effective = _per_tensor_or_channel(real)

    def exact(acc: NDArray[np.int64], channel: NDArray[np.intp]) -> NDArray[Any]:
        return round_half_away(acc * (effective[channel] if effective.ndim else effective))

    return _finish(site, effective, np.zeros_like(effective), exact)


def _per_tensor_or_channel(real: float | NDArray[np.float64]) -> NDArray[np.float64]:
    """One number 0-d, so that a slice of the channels does not index it."""
    each = np.asarray(real, np.float64)
    return each.reshape(()) if each.size == 1 else each


def _finish(
    site: Site, effective: NDArray[np.float64], window: NDArray[np.float64], exact: Exact
) -> Finish:
    y = result(site)
    zero_point, dtype = int(y.zero_point), y.qtype.dtype
    lo, hi = bounds(site)
    low, high = np.float32(lo - zero_point), np.float32(hi - zero_point)
    offset = np.float32(zero_point)
    scale = effective.astype(np.float32)
    limit = (0.5 - window - _FLOAT32_ERROR).astype(np.float32)

    def finish(acc: Accumulator, channels: Channels) -> IntArray:
        by, near = (scale[channels], limit[channels]) if scale.ndim else (scale, limit)
        value = np.multiply(acc, by, dtype=np.float32, order="C")
        np.clip(value, low, high, out=value)
        rounded = np.rint(value)
        value -= rounded
        np.abs(value, out=value)
        ties = np.flatnonzero(value >= near)
        rounded += offset
        q = rounded.astype(dtype)
        if ties.size:
            channel = ties % acc.shape[-1]
            if scale.ndim:
                channel = np.arange(scale.size)[channels][channel]
            again = exact(acc.reshape(-1)[ties].astype(np.int64), channel) + zero_point
            q.reshape(-1)[ties] = np.clip(again, lo, hi)
        return q

    return finish
