"""Exact sums of integer products in float32: when they are exact, and how they are computed fast.

With x − c in [lo, hi], lo ≤ 0 ≤ hi, let P be the sum of the positive weights of one output channel, and N the sum of
the magnitudes of its negative weights. Every partial sum of Σ w·(x − c), in any order and of any subset, lies in

    [ lo·P − hi·N,  hi·P − lo·N ].

float32 holds every integer up to 2^24. An addition or a fused multiply-add does not round if float32 holds its exact
result. So a sgemm of integers is exact in any order while both ends stay within 2^24. Otherwise the sum is cut into
chunks that are exact, and the chunks are added in int32.

The offset c may differ from the zero point z: Σ w·(x − z) + b = Σ w·(x − c) + [b + (c − z)·Σ w]. c = 0 saves a pass
over x.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import FloatArray, IntArray
from ptq.kernels.thread_pool import get_scratch_buffer

FLOAT32_EXACT_MAX = 2**24

# OpenBLAS computes a product below 2^19 multiplications on one thread, and on x86 with AVX-512 by kernels that need
# no packing. Both are wanted. Its own threads spin between calls and disturb ours (measured: up to 8 ms for each
# call on a shared machine). Blocks of 48 rows × 16 columns are 15 % faster than one large call.
_BLOCK_ROWS = 48
_BLOCK_COLUMNS = 16
_CHUNK_DEPTH = 576
_SINGLE_THREAD_WORK = 2**19 - 1
_MAX_BLOCK_ROWS = 56

# At most one in this many channels is added in int32; with more, int32 for all channels is cheaper.
_CHANNELS_PER_INEXACT = 8

Int64 = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class AccumulationPlan:
    """How a sum of integer products is computed.

    Attributes:
        offset: The c that is subtracted from x.
        bias: What is added to each output channel after that, int64.
        exact: Whether the sum of products is exact in float32, and also with the bias except for
            ``inexact_channels``.
        inexact_channels: Channels whose bias exceeds the exact range of float32, although their products do not.
        lo: Least value of x − c.
        hi: Greatest value of x − c.
        min_total: Least total of each output channel over all x, bias included, int64.
        max_total: Greatest total of each output channel over all x, bias included, int64.
    """

    offset: int
    bias: Int64
    exact: bool
    inexact_channels: NDArray[np.intp]
    lo: int
    hi: int
    min_total: Int64
    max_total: Int64


def subtract_zero_points(q: IntArray, zeros: IntArray) -> IntArray:
    """Return integers minus their zero points, which broadcast; int16 for 8-bit integers."""
    dtype = np.int16 if q.itemsize == 1 else np.int64
    difference: IntArray = q.astype(dtype) - zeros.astype(dtype)
    return difference


def plan_accumulation(
    w: IntArray,
    bias: IntArray | None,
    dtype: np.dtype[Any],
    zero_point: int,
    *,
    centred: bool = False,
) -> AccumulationPlan:
    """Plan bias + Σ w·(x − zero_point): the offset, the remaining bias, and whether float32 is exact.

    Args:
        w: Shape (K, O), zero point already subtracted.
        bias: Shape (O,) or None.
        dtype: Integer type of x; all its values may occur.
        zero_point: Zero point of x.
        centred: The offset must be the zero point, because some outputs read only a part of the weights.
    """
    wide = np.zeros(w.shape[1], np.int64) if bias is None else bias.astype(np.int64)
    info = np.iinfo(dtype)
    positive, negative = (np.maximum(x, 0).sum(0, dtype=np.int64) for x in (w, -w))

    def reach(offset: int) -> Int64:
        lo, hi = int(info.min) - offset, int(info.max) - offset
        largest: Int64 = np.maximum(hi * positive - lo * negative, hi * negative - lo * positive)
        return largest

    for offset in (zero_point,) if centred else (0, zero_point):
        rest = wide + (offset - zero_point) * (positive - negative)
        largest = np.maximum(np.abs(rest), reach(zero_point) + np.abs(wide))
        inexact = np.flatnonzero(largest > FLOAT32_EXACT_MAX)
        few_inexact = len(inexact) * _CHANNELS_PER_INEXACT <= len(rest)
        exact = bool(np.all(reach(offset) <= FLOAT32_EXACT_MAX)) and few_inexact
        if exact:
            break
    else:
        inexact = inexact[:0]
    lo, hi = int(info.min) - offset, int(info.max) - offset
    least, most = rest + lo * positive - hi * negative, rest + hi * positive - lo * negative
    return AccumulationPlan(offset, rest, exact, inexact, lo, hi, least, most)


@dataclass(frozen=True, eq=False)
class PackedMatrix:
    """A right operand (K, N), cut along K for exactness and along N for speed.

    Attributes:
        columns: N.
        exact: Whether the chunks may be added in float32.
        chunks: Rows of each chunk, and its panels: the first column and an array (blocks, rows, width).
    """

    columns: int
    exact: bool
    chunks: tuple[tuple[slice, tuple[tuple[int, FloatArray], ...]], ...]


def pack(w: NDArray[Any], lo: int, hi: int) -> PackedMatrix:
    """Cut a right operand (K, N) of integers, for a left operand with values in [lo, hi], lo ≤ 0 ≤ hi."""
    depth, columns = w.shape
    largest = max(int(w.max(initial=0)), -int(w.min(initial=0))) * max(hi, -lo)
    if depth <= _CHUNK_DEPTH and largest * depth <= FLOAT32_EXACT_MAX:
        return PackedMatrix(columns, True, ((slice(0, depth), tuple(_pack_panels(w))),))
    chunks = cut = max(1, -(-depth // _CHUNK_DEPTH))
    while True:
        starts = (np.arange(cut) * depth // cut).tolist()
        rows = [slice(a, b) for a, b in zip(starts, [*starts[1:], depth], strict=True)]
        p, n = np.stack([_sum_by_sign(w[row]) for row in rows], axis=1)
        reach = np.maximum(hi * p - lo * n, hi * n - lo * p)
        if cut == chunks:
            exact = bool(np.all(reach.sum(0) <= FLOAT32_EXACT_MAX))
            whole_p, whole_n = p.sum(0), n.sum(0)
            whole = np.maximum(hi * whole_p - lo * whole_n, hi * whole_n - lo * whole_p)
            # With fewer chunks, one of them exceeds the exact range.
            least = math.ceil(whole.max(initial=0) / FLOAT32_EXACT_MAX)
        # A single product is at most 255 · 255 < 2^24, so the loop ends with ``depth`` chunks at the latest.
        if exact or np.all(reach <= FLOAT32_EXACT_MAX):
            break
        cut = max(cut + 1, least)
    return PackedMatrix(columns, exact, tuple((row, tuple(_pack_panels(w[row]))) for row in rows))


def _sum_by_sign(w: NDArray[Any]) -> NDArray[np.float64]:
    """The sum of the positive weights of each column, and that of the magnitudes of the negative ones."""
    total, magnitude = w.sum(0, np.int64), np.abs(w).sum(0, np.int64)
    sums: NDArray[np.float64] = np.stack([magnitude + total, magnitude - total]) / 2
    return sums


def _pack_panels(w: NDArray[Any]) -> list[tuple[int, FloatArray]]:
    depth, columns = w.shape
    width = _SINGLE_THREAD_WORK // (_MAX_BLOCK_ROWS * depth)
    width = columns if width >= columns else max(width // _BLOCK_COLUMNS, 1) * _BLOCK_COLUMNS
    blocks = columns // width
    split = blocks * width
    front = w[:, :split].reshape(depth, blocks, width).swapaxes(0, 1)
    panels = [(0, front.astype(np.float32, order="C"))]
    if split < columns:
        panels.append((split, w[None, :, split:].astype(np.float32, order="C")))
    return panels


def is_single_threaded(a: IntArray, b: IntArray) -> bool:
    """Return whether OpenBLAS computes the product of the last two axes on the calling thread.

    Empty operands count as not.
    """
    return bool(0 < a.shape[-2] * a.shape[-1] * b.shape[-1] <= _SINGLE_THREAD_WORK)


def estimate_nanoseconds(rows: int, depth: int, columns: int) -> float:
    """Estimate the nanoseconds of a product on one thread, with conversion, bias and requantization."""
    return rows * (0.02 * depth * columns + 0.2 * depth + columns)


def multiply_with_blas(a: FloatArray, b: PackedMatrix, out: NDArray[Any]) -> None:
    """Write the product of integers a (M, K), held in float32, with b into out (M, N).

    ``out`` may be float32 only if b is exact. int32 holds every sum modulo 2^32.
    """
    direct = out.dtype == np.float32
    for i, (rows, panels) in enumerate(b.chunks):
        if direct and i == 0:
            _multiply_chunk(a[:, rows], panels, out)
            continue
        part = get_scratch_buffer("part", out.shape)
        _multiply_chunk(a[:, rows], panels, part)
        if i == 0:
            np.copyto(out, part, casting="unsafe")
        else:
            np.add(out, part if direct else part.astype(np.int32), out=out)


def _multiply_chunk(
    a: FloatArray, panels: tuple[tuple[int, FloatArray], ...], out: FloatArray
) -> None:
    rows = len(a)
    blocks = max(rows // _BLOCK_ROWS, 1)
    height = (
        rows // blocks if rows % blocks == 0 and rows // blocks <= _MAX_BLOCK_ROWS else _BLOCK_ROWS
    )
    split = min(blocks * height, rows)
    for start, stop, step in ((0, split, height), (split, rows, rows - split)):
        if start == stop:
            continue
        left = a[start:stop].reshape((stop - start) // step, 1, step, a.shape[1])
        for first, panel in panels:
            count, _, width = panel.shape
            target = out[start:stop, first : first + count * width]
            np.matmul(left, panel, out=target.reshape(-1, step, count, width).swapaxes(1, 2))
