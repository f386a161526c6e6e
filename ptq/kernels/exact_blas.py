"""When is a floating-point sum of integer products exact, and how is it computed fast?

With x − c in [lo, hi], lo ≤ 0 ≤ hi, and P, N the sums of the positive weights and of the negative ones'
magnitudes in one output channel, every partial sum of Σ w·(x − c), in whatever order and subset, lies in

    [ lo·P − hi·N,  hi·P − lo·N ].

float32 holds every integer up to 2^24, and an addition or a fused multiply-add whose exact result it holds does
not round. So while both ends stay within 2^24 a sgemm is exact in integers, whatever order it sums in. Else the
sum is cut into chunks of which each is exact, and the chunks are added in int32.

The offset c need not be the zero point z: Σ w·(x − z) + b = Σ w·(x − c) + [b + (c − z)·Σ w]. c = 0 saves a pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import FloatArray, IntArray
from ptq.kernels.thread_pool import scratch_buffer

FLOAT32_EXACT_MAX = 2**24

# OpenBLAS gives a product below 2^19 multiplications to one thread, and on x86 with AVX-512 to kernels that need
# no packing. That is what we want: its own threads, spinning between calls, get into the way of ours (measured:
# up to 8 ms a call on a shared machine), and blocks of 48 rows × 16 columns are 15 % faster than one large call.
_BLOCK_ROWS = 48
_BLOCK_COLUMNS = 16
_CHUNK_DEPTH = 576
_SINGLE_THREAD_WORK = 2**19 - 1
_MAX_BLOCK_ROWS = 56

# One in so many channels may be summed apart from the others before it is cheaper to sum all of them so.
_CHANNELS_PER_INEXACT = 8

Int64 = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class AccumulationPlan:
    """How a sum of integer products is to be computed.

    Attributes:
        offset: The c that is subtracted from x.
        bias: What remains to be added per output channel, int64.
        exact: Whether the products' sum is exact in float32, and with the bias too but for the channels ``beyond``.
        beyond: Channels whose bias takes them out of float32's exact range, though their products do not.
        lo: Least value of x − c.
        hi: Greatest value of x − c.
        least: Per output channel, the least total that any x gives, bias included, int64.
        most: The greatest.
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
    """Q less its zero points, which broadcast; of bytes in 16 bits."""
    kind = np.int16 if q.itemsize == 1 else np.int64
    less: IntArray = q.astype(kind) - zeros.astype(kind)
    return less


def plan_accumulation(
    w: IntArray,
    bias: IntArray | None,
    dtype: np.dtype[Any],
    zero_point: int,
    *,
    centred: bool = False,
) -> AccumulationPlan:
    """The offset, the remaining bias and the exactness of bias + Σ w·(x − zero_point).

    Args:
        w: Shape (K, O), the weights' zero point already subtracted.
        bias: Shape (O,) or None.
        dtype: The integer type of x; all its values may occur.
        zero_point: Of x.
        centred: Allow no offset but the zero point (where not every output sees every weight).
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
        beyond = np.flatnonzero(largest > FLOAT32_EXACT_MAX)
        exact = bool(np.all(reach(offset) <= FLOAT32_EXACT_MAX)) and len(
            beyond
        ) * _CHANNELS_PER_INEXACT <= len(rest)
        if exact:
            break
    else:
        beyond = beyond[:0]
    lo, hi = int(info.min) - offset, int(info.max) - offset
    least, most = rest + lo * positive - hi * negative, rest + hi * positive - lo * negative
    return AccumulationPlan(offset, rest, exact, beyond, lo, hi, least, most)


@dataclass(frozen=True, eq=False)
class PackedMatrix:
    """A right operand (K, N), cut for exactness along K and for speed along N.

    Attributes:
        columns: N.
        exact: Whether the chunks may be added in float32.
        chunks: Rows of each chunk, and its panels: the first column and an array (blocks, rows, width).
    """

    columns: int
    exact: bool
    chunks: tuple[tuple[slice, tuple[tuple[int, FloatArray], ...]], ...]


def pack(w: NDArray[Any], lo: int, hi: int) -> PackedMatrix:
    """Cut a right operand (K, N) of integers for a left one whose values lie in [lo, hi], lo ≤ 0 ≤ hi."""
    depth, columns = w.shape
    largest = int(np.abs(w).max(initial=0)) * max(hi, -lo)
    w = w.astype(np.float32)
    if depth <= _CHUNK_DEPTH and largest * depth <= FLOAT32_EXACT_MAX:
        return PackedMatrix(columns, True, ((slice(0, depth), tuple(_panels(w))),))
    positive, negative = np.maximum(w, 0), np.maximum(-w, 0)
    chunks = cut = max(1, -(-depth // _CHUNK_DEPTH))
    while True:
        starts = np.arange(cut) * depth // cut
        p, n = (np.add.reduceat(part, starts, 0, np.float64) for part in (positive, negative))
        reach = np.maximum(hi * p - lo * n, hi * n - lo * p)
        if cut == chunks:
            exact = bool(np.all(reach.sum(0) <= FLOAT32_EXACT_MAX))
            whole_p, whole_n = p.sum(0), n.sum(0)
            whole = np.maximum(hi * whole_p - lo * whole_n, hi * whole_n - lo * whole_p)
            least = math.ceil(
                whole.max(initial=0) / FLOAT32_EXACT_MAX
            )  # with fewer, one chunk reaches too far
        # A single product is at most 255 · 255 < 2^24, so that the loop ends with depth chunks at the latest.
        if exact or np.all(reach <= FLOAT32_EXACT_MAX):
            break
        cut = max(cut + 1, least)
    ends = [*starts[1:].tolist(), depth]
    rows = [slice(a, b) for a, b in zip(starts.tolist(), ends, strict=True)]
    return PackedMatrix(columns, exact, tuple((row, tuple(_panels(w[row]))) for row in rows))


def _panels(w: FloatArray) -> list[tuple[int, FloatArray]]:
    depth, columns = w.shape
    width = _SINGLE_THREAD_WORK // (_MAX_BLOCK_ROWS * depth)
    width = columns if width >= columns else max(width // _BLOCK_COLUMNS, 1) * _BLOCK_COLUMNS
    blocks = columns // width
    split = blocks * width
    panels = [(0, np.ascontiguousarray(w[:, :split].reshape(depth, blocks, width).swapaxes(0, 1)))]
    if split < columns:
        panels.append((split, np.ascontiguousarray(w[:, split:])[None]))
    return panels


def is_single_threaded(a: IntArray, b: IntArray) -> bool:
    """Whether OpenBLAS leaves a's last two axes times b's, if they are not empty, to the thread that asks for it."""
    return bool(0 < a.shape[-2] * a.shape[-1] * b.shape[-1] <= _SINGLE_THREAD_WORK)


def estimate_nanoseconds(rows: int, depth: int, columns: int) -> float:
    """A guess at the nanoseconds that a product takes one thread, with conversion, bias and requantize."""
    return rows * (0.02 * depth * columns + 0.2 * depth + columns)


def multiply(a: FloatArray, b: PackedMatrix, out: NDArray[Any]) -> None:
    """Write the product of integers a (M, K), held in float32, with b into out (M, N).

    out is float32 only if b is exact; int32 takes every sum, modulo 2^32.
    """
    direct = out.dtype == np.float32
    for i, (rows, panels) in enumerate(b.chunks):
        if direct and i == 0:
            _multiply_chunk(a[:, rows], panels, out)
            continue
        part = scratch_buffer("part", out.shape)
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
