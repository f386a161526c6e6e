"""LiteRT's rounding of accumulators to integers, at the speed of float32.

All ways to round acc · M agree with float32 rounding, except near ties. So a tile is rounded in float32, and the few
elements near a tie are computed again by the exact rule.

How near: gemmlowp rounds t = acc · M · 2^e to an integer h, |h − t| ≤ 1/2, and then h / 2^e to the nearest, ties away
from zero. The result is that of acc · M unless a tie lies within ``window`` = 2^−(e+1). If nothing below zero is kept
(a ReLU), values within ``window`` below a tie are rounded up and nothing else changes. Then the window is added, and
only float32's own error remains. That is four relative errors of 2^−24 (M, the accumulator, the product, the sum) of
a value that is clamped to |v| ≤ 2^9: at most 2^−13, which 2^−12 covers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.rounding import round_half_away
from ptq.core.types import FloatArray, IntArray
from ptq.executor.arithmetics.node_site import (
    Site,
    get_constant_input,
    get_output_bounds,
    get_output_qparams,
)
from ptq.kernels.channel_broadcast import apply_per_channel, repeat_channels
from ptq.kernels.fixed_point import multiply, multiply_ties_upwards, quantize_multiplier
from ptq.kernels.requantizer import Accumulator, Channels, Requantizer
from ptq.kernels.thread_pool import get_scratch_buffer

_FLOAT32_ERROR = 2.0**-12
_MAX_WINDOW = 0.25
_GROUP = 8
"""Channels that LiteRT's optimized kernels take at once."""

ExactRounding = Callable[[NDArray[np.int64], NDArray[np.intp]], NDArray[Any]]
"""Accumulators, and the channel of each, to acc · M rounded."""


def make_gemmlowp_requantizer(site: Site, real: float | NDArray[np.float64]) -> Requantizer:
    """Return the requantizer Zo + MBQM(acc, real[c]), clamped; ``real`` per tensor or per channel."""
    multiplier, shift = quantize_multiplier(_to_float64_factors(real))
    effective = np.ldexp(multiplier.astype(np.float64), (shift - 31).astype(np.int32))
    window = np.ldexp(0.5, np.minimum(shift, 0).astype(np.int32))

    def exact(acc: NDArray[np.int64], channel: NDArray[np.intp]) -> NDArray[Any]:
        if multiplier.ndim == 0:
            return multiply(acc, multiplier, shift)
        return multiply(acc, multiplier[channel], shift[channel])

    return _make_requantizer(site, np.asarray(effective), np.asarray(window), exact)


def make_grouped_requantizer(site: Site, real: NDArray[np.float64]) -> Requantizer:
    """Return the requantizer of LiteRT's optimized kernel, which takes eight channels at once.

    The right shift of gemmlowp's product rounds ties upwards there, and away from zero in the last channels.
    """
    y = get_output_qparams(site)
    lo, hi = get_output_bounds(site)
    weight = get_constant_input(site, 1)
    count = 1 if weight is None else len(weight)
    each = np.broadcast_to(np.asarray(real, np.float64).reshape(-1), count)
    multiplier, shift = quantize_multiplier(each)
    is_grouped = np.arange(count) < count - count % _GROUP

    def requantize(acc: Accumulator, channels: Channels) -> IntArray:
        factors, wide = (multiplier[channels], shift[channels]), acc.astype(np.int64)
        upwards = multiply_ties_upwards(wide, *factors)
        q = np.where(is_grouped[channels], upwards, multiply(wide, *factors)) + int(y.zero_point)
        rounded: IntArray = np.clip(q, lo, hi).astype(y.qtype.dtype)
        return rounded

    return requantize


def make_float64_requantizer(site: Site, real: float | NDArray[np.float64]) -> Requantizer:
    """Return the requantizer Zo + round_half_away(acc · real[c]), clamped, with the product in float64.

    ``real`` is one number, or one for each channel.
    """
    effective = _to_float64_factors(real)

    def exact(acc: NDArray[np.int64], channel: NDArray[np.intp]) -> NDArray[Any]:
        return round_half_away(acc * (effective[channel] if effective.ndim else effective))

    requantize = _make_requantizer(site, effective, np.zeros_like(effective), exact)
    return (
        requantize
        if np.all(effective < 1)
        else _make_wrapping_requantizer(site, effective, requantize)
    )


def _make_wrapping_requantizer(
    site: Site, effective: NDArray[np.float64], requantize: Requantizer
) -> Requantizer:
    """Return the requantizer where a product beyond int32 becomes the lowest int32, plus Zo, which may wrap."""
    y = get_output_qparams(site)
    lo, hi = get_output_bounds(site)
    beyond = y.qtype.dtype.type(hi if y.zero_point < 0 else lo)

    def wrapping(acc: Accumulator, channels: Channels) -> IntArray:
        by = effective[channels] if effective.ndim else effective
        is_beyond = np.abs(round_half_away(acc.astype(np.float64) * by)) >= 2.0**31
        return np.where(is_beyond, beyond, requantize(acc, channels))

    return wrapping


def _to_float64_factors(real: float | NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the factors as float64, a single one 0-d, so that a slice of channels does not index it."""
    each = np.asarray(real, np.float64)
    return each.reshape(()) if each.size == 1 else each


def _make_requantizer(
    site: Site, effective: NDArray[np.float64], window: NDArray[np.float64], exact: ExactRounding
) -> Requantizer:
    y = get_output_qparams(site)
    zero_point, dtype = int(y.zero_point), y.qtype.dtype
    lo, hi = get_output_bounds(site)
    low, high = np.float32(lo - zero_point), np.float32(hi - zero_point)
    scale = effective.astype(np.float32)
    positive = lo >= zero_point and bool(np.all(window <= _MAX_WINDOW))
    added = zero_point + (window if positive else np.zeros_like(window))
    near = 0.5 - _FLOAT32_ERROR - (np.zeros_like(window) if positive else window)
    by, plus, limit = (
        _make_channelwise_operation(a.astype(np.float32)) for a in (scale, added, near)
    )

    def requantize(acc: Accumulator, channels: Channels) -> IntArray:
        value, rounded = (
            get_scratch_buffer("value", acc.shape),
            get_scratch_buffer("rounded", acc.shape),
        )
        close = get_scratch_buffer("close", acc.shape, np.bool_)
        by(np.multiply, acc.astype(np.float32, copy=False), channels, value)
        value.clip(low, high, out=value)
        if positive:
            plus(np.add, value, channels, value)
        np.rint(value, out=rounded)
        np.subtract(value, rounded, out=value)
        np.abs(value, out=value)
        limit(np.greater_equal, value, channels, close)
        if not positive and zero_point:
            plus(np.add, rounded, channels, rounded)
        q: IntArray = rounded.astype(dtype)
        ties = np.flatnonzero(close)
        if ties.size:
            channel = ties % acc.shape[-1]
            if scale.ndim:
                channel = np.arange(scale.size)[channels][channel]
            again = exact(acc.reshape(-1)[ties].astype(np.int64), channel) + zero_point
            q.reshape(-1)[ties] = np.clip(again, lo, hi)
        return q

    return requantize


def _make_channelwise_operation(
    values: NDArray[np.float32],
) -> Callable[[np.ufunc, FloatArray, Channels, NDArray[Any]], None]:
    """Return what writes ``operation(rows, value of the channel)``.

    If all channels have one value, it is a scalar.
    """
    if values.size and np.all(values == values.flat[0]):
        one = values.flat[0]
        return lambda operation, rows, channels, out: operation(rows, one, out=out)
    every = repeat_channels(values)

    def write(operation: np.ufunc, rows: FloatArray, channels: Channels, out: NDArray[Any]) -> None:
        whole = rows.ndim == 2 and rows.shape[1] == values.size and isinstance(channels, slice)
        if whole and rows.flags.c_contiguous:
            apply_per_channel(operation, rows, every, out)
        else:
            operation(rows, values[channels], out=out)

    return write
