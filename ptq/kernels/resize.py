"""Source positions of resized arrays: ONNX's coordinates, and LiteRT's two interpolations.

ONNX's positions are computed in float32 as in ONNX Runtime. LiteRT's bilinear positions count in 1/1024 of a pixel:

    step = (1024 · in + out/2) / out                          align_corners: (1024(in−1) + (out−1)/2) / (out−1)
    p = i · step, half_pixel_centers + step/2 − 512;  lo = max(p / 1024, 0),  hi = min((p + 1023) / 1024, in − 1)
    q = Σ of four neighbours weighted in 2^-20, ties away from zero

with truncating integer divisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.rounding import round_half_away
from ptq.core.types import FloatArray, IntArray

Int64 = NDArray[np.int64]

_ONE = 1024
_HALF = np.float32(0.5)
TIE_TOLERANCE = 1e-6
"""ONNX Runtime treats positions this close to a half as ties."""
_POSITION_TOLERANCE = 1e-4
"""Positions that differ by less, in pixels, are equal: LiteRT resolves 1/1024."""


@dataclass(frozen=True)
class ResizeAxis:
    """One axis of a resized array.

    Attributes:
        size: Length of the input.
        output_size: Length of the output.
        scale: Factor that ONNX computes positions with; it differs from output_size / size if that was rounded.
    """

    size: int
    output_size: int
    scale: float


@dataclass(frozen=True)
class OnnxSampling:
    """Attributes of ONNX Resize.

    Attributes:
        coordinate_mode: coordinate_transformation_mode.
        nearest_mode: nearest_mode; None if it interpolates.
        tie_tolerance: Distance from a half, in pixels, within which a position is a tie of two pixels.
    """

    coordinate_mode: str
    nearest_mode: str | None
    tie_tolerance: float = TIE_TOLERANCE


@dataclass(frozen=True)
class LitertSampling:
    """Attributes of LiteRT's RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR."""

    align_corners: bool
    half_pixel_centers: bool


LITERT_SAMPLINGS = (
    LitertSampling(False, False),
    LitertSampling(False, True),
    LitertSampling(True, False),
)


def compute_source_positions(coordinates: str, axis: ResizeAxis) -> FloatArray:
    """Return the real input position of every output position, shape (output_size,), as in ONNX Runtime."""
    i, scale = np.arange(axis.output_size, dtype=np.float32), np.float32(axis.scale)
    if coordinates == "align_corners":
        last = np.float32(axis.output_size - 1)
        return i * np.float32(axis.size - 1) / last if axis.output_size > 1 else np.zeros_like(i)
    if coordinates == "asymmetric":
        return i / scale
    if coordinates == "tf_half_pixel_for_nn":
        return (i + _HALF) / scale
    if coordinates == "pytorch_half_pixel" and axis.output_size <= 1:
        return np.zeros_like(i)
    return (i + _HALF) / scale - _HALF


def compute_nearest_positions(sampling: OnnxSampling, axis: ResizeAxis) -> Int64:
    """Return the input position that each output position copies, shape (output_size,)."""
    if axis.scale == 1:
        return np.minimum(np.arange(axis.output_size), axis.size - 1)
    real = compute_source_positions(sampling.coordinate_mode, axis)
    if sampling.nearest_mode == "floor":
        whole = np.floor(real)
    elif sampling.nearest_mode == "ceil":
        whole = np.ceil(real)
    else:
        below = np.floor(real)
        tie = np.abs(real - below - _HALF) <= np.float32(sampling.tie_tolerance)
        preferred = below if sampling.nearest_mode == "round_prefer_floor" else below + 1
        whole = np.where(tie, preferred, round_half_away(real))
    return np.clip(whole, 0, axis.size - 1).astype(np.int64)


def resample_nearest(
    x: NDArray[Any], axes: Sequence[ResizeAxis], sampling: OnnxSampling
) -> NDArray[Any]:
    """Copy the nearest input position to each output position, axis by axis.

    An array whose shape does not change is returned itself.
    """
    if all(axis.size == axis.output_size for axis in axes):
        return x
    for number, axis in enumerate(axes):
        chosen = compute_nearest_positions(sampling, axis)
        if not np.array_equal(chosen, np.arange(axis.size)):
            x = np.take(x, chosen, number)
    return x


def find_litert_sampling(
    sampling: OnnxSampling, axes: Sequence[ResizeAxis]
) -> LitertSampling | None:
    """Return LiteRT's attributes that give the same positions along the axes; None if there are none."""
    for litert in LITERT_SAMPLINGS:
        if all(_has_same_positions(sampling, litert, axis) for axis in axes):
            return litert
    return None


def _has_same_positions(sampling: OnnxSampling, litert: LitertSampling, axis: ResizeAxis) -> bool:
    if sampling.nearest_mode is not None:
        return np.array_equal(
            compute_nearest_positions(sampling, axis),
            compute_litert_nearest_positions(axis, litert),
        )
    i, ratio = np.arange(axis.output_size), axis.size / axis.output_size
    if litert.align_corners:
        theirs = i * (axis.size - 1) / (axis.output_size - 1) if axis.output_size > 1 else i * ratio
    else:
        theirs = (i + 0.5) * ratio - 0.5 if litert.half_pixel_centers else i * ratio
    ours = compute_source_positions(sampling.coordinate_mode, axis)
    inside = (0, axis.size - 1)
    return bool(
        np.abs(np.clip(ours, *inside) - np.clip(theirs, *inside)).max() < _POSITION_TOLERANCE
    )


def compute_litert_nearest_positions(axis: ResizeAxis, litert: LitertSampling) -> Int64:
    """Return the input position of every output position as LiteRT computes it, in float32."""
    spans = (axis.size, axis.output_size)
    if litert.align_corners and axis.output_size > 1:
        spans = (axis.size - 1, axis.output_size - 1)
    step = np.float32(spans[0]) / np.float32(max(spans[1], 1))
    offset = np.float32(0.5 if litert.half_pixel_centers else 0.0)
    position = (np.arange(axis.output_size, dtype=np.float32) + offset) * step
    whole = round_half_away(position) if litert.align_corners else np.floor(position)
    position_of: Int64 = np.clip(whole, 0, axis.size - 1).astype(np.int64)
    return position_of


def _find_neighbours(axis: ResizeAxis, litert: LitertSampling) -> tuple[Int64, Int64, Int64]:
    """Return the two neighbours of every output position along one axis, and the upper one's weight in 1/1024."""
    size, out = axis.size, axis.output_size
    if litert.align_corners and out > 1:
        step = (_ONE * (size - 1) + (out - 1) // 2) // (out - 1)
    else:
        step = (_ONE * size + out // 2) // max(out, 1)
    position = np.arange(out, dtype=np.int64) * step
    if litert.half_pixel_centers:
        position += step // 2 - _ONE // 2
    lower = np.maximum(position, 0) // _ONE
    upper = np.minimum((position + _ONE - 1) // _ONE, size - 1)
    return lower, upper, position - lower * _ONE


def interpolate_like_litert(
    q: IntArray, height: ResizeAxis, width: ResizeAxis, litert: LitertSampling
) -> IntArray:
    """Return LiteRT's bilinear interpolation of raw integers, (N, H, W, C)."""
    y0, y1, dy = _find_neighbours(height, litert)
    x0, x1, dx = _find_neighbours(width, litert)
    wide, dy, dx = q.astype(np.int64), dy[:, None, None], dx[:, None]
    top, bottom = wide[:, y0], wide[:, y1]
    value = (_ONE - dy) * ((_ONE - dx) * top[:, :, x0] + dx * top[:, :, x1])
    value += dy * ((_ONE - dx) * bottom[:, :, x0] + dx * bottom[:, :, x1])
    rounded = (np.abs(value) + (1 << 19)) >> 20
    resized: IntArray = (np.sign(value) * rounded).astype(q.dtype)
    return resized


_XNNPACK_BITS = 11


def interpolate_like_xnnpack(
    q: IntArray, height: ResizeAxis, width: ResizeAxis, litert: LitertSampling
) -> IntArray:
    """Return XNNPACK's bilinear interpolation of raw integers, (N, H, W, C): weights in 1/2048 of a pixel."""
    y0, y1, dy = _find_xnnpack_neighbours(height, litert)
    x0, x1, dx = _find_xnnpack_neighbours(width, litert)
    wide, dy, dx = q.astype(np.int64), dy[:, None, None], dx[:, None]
    top, bottom = wide[:, y0], wide[:, y1]
    above, below = (
        (row[:, :, x0] << _XNNPACK_BITS) + dx * (row[:, :, x1] - row[:, :, x0])
        for row in (top, bottom)
    )
    value = (above << _XNNPACK_BITS) + dy * (below - above)
    bits = 2 * _XNNPACK_BITS
    resized: IntArray = ((value + (1 << (bits - 1))) >> bits).astype(q.dtype)
    return resized


def _find_xnnpack_neighbours(
    axis: ResizeAxis, litert: LitertSampling
) -> tuple[Int64, Int64, Int64]:
    """Return the two neighbours of every output position along one axis, and the upper one's weight in 1/2048."""
    size, out = axis.size, axis.output_size
    adjusted = litert.align_corners and out != 1
    step = np.float32(size - adjusted) / np.float32(out - adjusted)
    position = np.arange(out, dtype=np.float32) * step
    if litert.half_pixel_centers:
        position = position + (_HALF * step - _HALF)
        position = np.clip(position, np.float32(0), np.float32(size - 1))
    lower = np.floor(position).astype(np.int64)
    upper = np.minimum(lower + 1, size - 1)
    weight = np.rint((position - lower.astype(np.float32)) * np.float32(1 << _XNNPACK_BITS))
    return lower, upper, weight.astype(np.int64)
