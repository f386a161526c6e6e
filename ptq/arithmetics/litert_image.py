"""How does LiteRT resize and regroup images? Raw integers, channels last; scales must be the same.

Bilinear, in units of 1/1024 of a pixel:

    step = (1024 · in + out/2) / out                          aligned corners: (1024(in−1) + (out−1)/2) / (out−1)
    p = i · step, half-pixel centres + step/2 − 512;  lo = max(p / 1024, 0),  hi = min((p + 1023) / 1024, in − 1)
    q = Σ of four neighbours weighted in 2^-20, ties away from zero

with truncating integer divisions. SpaceToBatchND, BatchToSpaceND, ResizeBilinear and ResizeNearestNeighbor are
LiteRT's operators under their own names: ONNX has no such forms of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.arithmetics.litert_elementwise import same_scale
from ptq.arithmetics.operands import Inputs, activation, required
from ptq.arithmetics.site import Kernel, Maker, Site
from ptq.kernels import shape as move
from ptq.kernels.fixedpoint import Int64
from ptq.kernels.float32 import round_half_away
from ptq.types import IntArray

_ONE = 1024


def _neighbours(size: int, out: int, aligned: bool, half_pixel: bool) -> tuple[Int64, Int64, Int64]:
    """The two neighbours of every output position along one axis, and the upper one's weight of 1024."""
    if aligned and out > 1:
        step = (_ONE * (size - 1) + (out - 1) // 2) // (out - 1)
    else:
        step = (_ONE * size + out // 2) // out
    position = np.arange(out, dtype=np.int64) * step
    if half_pixel:
        position += step // 2 - _ONE // 2
    lower = np.maximum(position, 0) // _ONE
    upper = np.minimum((position + _ONE - 1) // _ONE, size - 1)
    return lower, upper, position - lower * _ONE


def _bilinear(site: Site) -> Kernel:
    size, aligned, half_pixel = _resize(site)

    def kernel(inputs: Inputs) -> NDArray[Any]:
        q = required(site, inputs, 0)
        y0, y1, dy = _neighbours(q.shape[1], size[0], aligned, half_pixel)
        x0, x1, dx = _neighbours(q.shape[2], size[1], aligned, half_pixel)
        wide, dy, dx = q.astype(np.int64), dy[:, None, None], dx[:, None]
        top, bottom = wide[:, y0], wide[:, y1]
        value = (_ONE - dy) * ((_ONE - dx) * top[:, :, x0] + dx * top[:, :, x1])
        value += dy * ((_ONE - dx) * bottom[:, :, x0] + dx * bottom[:, :, x1])
        rounded = (np.abs(value) + (1 << 19)) >> 20
        resized: IntArray = (np.sign(value) * rounded).astype(q.dtype)
        return resized

    return kernel


def _nearest_of(size: int, out: int, aligned: bool, half_pixel: bool) -> NDArray[np.int64]:
    """The input position of every output position along one axis, computed in float32."""
    spans = (size - 1, out - 1) if aligned and out > 1 else (size, out)
    step = np.float32(spans[0]) / np.float32(spans[1])
    offset = np.float32(0.5 if half_pixel else 0.0)
    position = (np.arange(out, dtype=np.float32) + offset) * step
    whole = round_half_away(position) if aligned else np.floor(position)
    position_of: NDArray[np.int64] = np.clip(whole, 0, size - 1).astype(np.int64)
    return position_of


def _nearest(site: Site) -> Kernel:
    size, aligned, half_pixel = _resize(site)

    def kernel(inputs: Inputs) -> NDArray[Any]:
        q = required(site, inputs, 0)
        rows = _nearest_of(q.shape[1], size[0], aligned, half_pixel)
        columns = _nearest_of(q.shape[2], size[1], aligned, half_pixel)
        return q[:, rows[:, None], columns]

    return kernel


def _resize(site: Site) -> tuple[tuple[int, int], bool, bool]:
    height, width = site.attrs["size"]
    aligned = bool(site.attrs.get("align_corners", 0))
    return (int(height), int(width)), aligned, bool(site.attrs.get("half_pixel_centers", 0))


def _space_to_batch(site: Site) -> Kernel:
    block, paddings = tuple(site.attrs["block"]), site.attrs["paddings"]
    zero_point = int(activation(site).zero_point)
    return lambda inputs: move.space_to_batch(
        required(site, inputs, 0), block, paddings, zero_point
    )


def _batch_to_space(site: Site) -> Kernel:
    block, crops = tuple(site.attrs["block"]), site.attrs["crops"]
    return lambda inputs: move.batch_to_space(required(site, inputs, 0), block, crops)


KERNELS: Mapping[str, Maker] = {
    "BatchToSpaceND": same_scale(_batch_to_space),
    "ResizeBilinear": same_scale(_bilinear),
    "ResizeNearestNeighbor": same_scale(_nearest),
    "SpaceToBatchND": same_scale(_space_to_batch),
}
