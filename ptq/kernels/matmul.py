"""What does a matrix product accumulate?

    acc[…, m, n] = bias[n] + Σ_k (a[…, m, k] − a_zero_point)·(b[…, k, n] − b_zero_point)

exactly; `exact` says when float32 may do it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import ModelError
from ptq.core.types import FloatArray, IntArray, QType
from ptq.kernels import exact_blas, window_view
from ptq.kernels.accumulate import Totals
from ptq.kernels.requantizer import Finish
from ptq.kernels.thread_pool import Output, buffer, run, shares

# Elements of a tile's operand and accumulator together: 1 MiB of float32, where overhead no longer counts.
_TILE = 2**18
_ROWS = 48
_FEWEST = 16


def rows_product(
    w: IntArray, bias: NDArray[np.int32] | None, a_qtype: QType, a_zero_point: int
) -> Callable[[IntArray, Finish], IntArray]:
    """Prepare the product of integer rows (M, K) with a matrix (K, N), its zero point already subtracted."""
    depth, columns = w.shape
    plan = exact_blas.plan(w, bias, a_qtype.dtype, a_zero_point)
    packed = exact_blas.pack(w, plan.lo, plan.hi)
    totals = Totals(plan)

    def product(a: IntArray, finish: Finish) -> IntArray:
        if a.shape[1] != depth:
            raise ModelError(f"{a.shape[1]} columns meet {depth} rows; check the operands' shapes")
        total = len(a)
        work = exact_blas.duration(total, depth, columns)
        height = tile_rows(total, depth + columns, work)
        out = Output((total, columns))

        def tile(i: int) -> None:
            rows = slice(i * height, min((i + 1) * height, total))
            left = convert(a[rows], plan.offset)
            acc = buffer("acc", (rows.stop - rows.start, columns), totals.dtype)
            exact_blas.multiply(left, packed, acc)
            out[rows] = totals.finished(acc, finish)

        run(tile, max(1, -(-total // height)), work)
        return out.array

    return product


def tile_rows(total: int, width: int, work: float) -> int:
    """How many of some rows make a tile: what fits the cache, and a share for every thread."""
    bands = max(1, shares(-(-total * width // _TILE), total // _FEWEST, work))
    height = max(1, -(-total // bands))
    # Long tiles are cut into blocks of 48 rows; a short one is a block of its own.
    return height if height < 10 * _ROWS else -(-height // _ROWS) * _ROWS


def convert(a: IntArray, offset: int | IntArray) -> FloatArray:
    """Write a − offset in float32; the offset is one number or an array that broadcasts."""
    left: FloatArray = buffer("left", a.shape)
    window_view.copy(a, offset, left)
    return left


def product(
    b: IntArray,
    bias: NDArray[np.int32] | None,
    *,
    a_qtype: QType,
    a_zero_point: IntArray | int,
    b_qtype: QType,
    b_zero_point: IntArray | int,
) -> Callable[[IntArray, Finish], IntArray]:
    """Prepare a product with a constant right operand.

    Args:
        b: Shape (K, N), (…, K, N), or (K,) as ONNX MatMul has it.
        bias: Shape (N,), in units of the accumulator, or None.
        a_qtype: The type of a.
        a_zero_point: One number, or one for each row of a.
        b_qtype: The type of b.
        b_zero_point: One number, or one for each column of b.

    Raises:
        ModelError: If the shapes do not fit each other.
    """
    if b.ndim == 2 and np.ndim(a_zero_point) == 0:
        rows = rows_product(_minus(b, b_zero_point, -2), bias, a_qtype, int(a_zero_point))
        columns = b.shape[1]

        def flat(a: IntArray, finish: Finish) -> IntArray:
            return rows(a.reshape(-1, a.shape[-1]), finish).reshape(*a.shape[:-1], columns)

        return flat
    packed = _pack(b, b_zero_point, *_interval(a_qtype, a_zero_point))
    return lambda a, finish: _pairs(a, a_zero_point, b.shape, packed, bias, finish)


def products(
    *,
    a_qtype: QType,
    a_zero_point: IntArray | int,
    b_qtype: QType,
    b_zero_point: IntArray | int,
) -> Callable[[IntArray, IntArray, Finish], IntArray]:
    """Prepare a product of two operands that both arrive at run time, as ONNX MatMul takes them.

    Args:
        a_qtype: The type of a, shape (…, M, K) or (K,).
        a_zero_point: One number, or one for each row of a.
        b_qtype: The type of b, shape (…, K, N) or (K,).
        b_zero_point: One number, or one for each column of b.

    Raises:
        ModelError: If the shapes do not fit each other.
    """
    interval = _interval(a_qtype, a_zero_point)
    largest = max(map(abs, interval)) * max(map(abs, _interval(b_qtype, b_zero_point)))
    whole = np.ndim(a_zero_point) == np.ndim(b_zero_point) == 0

    def multiply(a: IntArray, b: IntArray, finish: Finish) -> IntArray:
        short = largest * a.shape[-1] <= exact_blas.EXACT
        if whole and short and a.ndim > 1 and b.ndim > 1 and exact_blas.is_small(a, b):
            return _batched(a, b, int(a_zero_point), int(b_zero_point), finish)
        return _pairs(a, a_zero_point, b.shape, _pack(b, b_zero_point, *interval), None, finish)

    return multiply


def _batched(
    a: IntArray, b: IntArray, a_zero_point: int, b_zero_point: int, finish: Finish
) -> IntArray:
    """Multiply many small matrices of a with those of b, several at a time; float32 must hold any sum of theirs."""
    (m, depth), (rows, columns) = a.shape[-2:], b.shape[-2:]
    if depth != rows:
        raise ModelError(f"{depth} columns meet {rows} rows; check the operands' shapes")
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    left = np.broadcast_to(a, (*batch, m, depth)).reshape(-1, m, depth)
    right = np.broadcast_to(b, (*batch, depth, columns)).reshape(-1, depth, columns)
    total = len(left)
    most = max(1, _TILE // max(1, m * depth + depth * columns + m * columns))
    work = exact_blas.duration(total * m, depth, columns)
    each = max(1, -(-total // max(1, shares(-(-total // most), total, work))))
    out = Output((total, m, columns))

    def tile(i: int) -> None:
        part = slice(i * each, min((i + 1) * each, total))
        second = buffer("right", right[part].shape)
        window_view.copy(right[part], b_zero_point, second)
        acc = buffer("acc", (part.stop - part.start, m, columns))
        np.matmul(convert(left[part], a_zero_point), second, out=acc)
        out[part] = finish(acc.reshape(-1, columns), slice(0, columns)).reshape(acc.shape)

    run(tile, max(1, -(-total // each)), work)
    return out.array.reshape(*batch, m, columns)


def _interval(qtype: QType, zero_point: IntArray | int) -> tuple[int, int]:
    """The least and the greatest value that q − zero_point takes."""
    info = np.iinfo(qtype.dtype)
    return int(info.min) - int(np.max(zero_point)), int(info.max) - int(np.min(zero_point))


def _pack(b: IntArray, zero_point: IntArray | int, lo: int, hi: int) -> list[exact_blas.Packed]:
    """Pack every matrix of b (…, K, N) or (K,)."""
    wide = _minus(b[:, None] if b.ndim == 1 else b, zero_point, -2)
    matrices = wide.reshape(-1, *wide.shape[-2:])
    packed: list[exact_blas.Packed] = [exact_blas.pack(matrices[0], lo, hi)] * len(matrices)

    def tile(i: int) -> None:
        packed[i] = exact_blas.pack(matrices[i], lo, hi)

    run(tile, len(matrices), 10.0 * wide.size)
    return packed


def _pairs(
    a: IntArray,
    a_zero_point: IntArray | int,
    b_shape: tuple[int, ...],
    packed: list[exact_blas.Packed],
    bias: NDArray[np.int32] | None,
    finish: Finish,
) -> IntArray:
    """Multiply every matrix of a with its matrix of b, batch axes broadcast."""
    a_vector, b_vector = a.ndim == 1, len(b_shape) == 1
    left = a[None] if a_vector else a
    right = (*b_shape, 1) if b_vector else b_shape
    (m, depth), columns = left.shape[-2:], right[-1]
    if depth != right[-2]:
        raise ModelError(f"{depth} columns meet {right[-2]} rows; check the operands' shapes")
    batch = np.broadcast_shapes(left.shape[:-2], right[:-2])
    of_a, of_b = (
        np.broadcast_to(np.arange(prod(shape)).reshape(shape), batch).ravel()
        for shape in (left.shape[:-2], right[:-2])
    )
    zeros = np.asarray(a_zero_point, np.int64)
    scalar = int(zeros) if zeros.ndim == 0 else None
    spread = np.broadcast_to(zeros[:, None] if zeros.ndim == 1 else zeros, (*left.shape[:-1], 1))
    spread, left = spread.reshape(-1, m, 1), left.reshape(-1, m, depth)
    work = exact_blas.duration(len(of_a) * m, depth, columns)
    height = tile_rows(m * len(of_a), depth + columns, work)
    bands = -(-m // height)
    out = Output((len(of_a), m, columns))

    def tile(i: int) -> None:
        item, band = divmod(i, bands)
        rows = slice(band * height, min((band + 1) * height, m))
        offset = spread[of_a[item], rows] if scalar is None else scalar
        operand = packed[of_b[item]]
        # Exact in float32 by its own bound; a bias is not part of that bound.
        real = operand.exact and bias is None
        acc = buffer("acc", (rows.stop - rows.start, columns), np.float32 if real else np.int32)
        exact_blas.multiply(convert(left[of_a[item], rows], offset), operand, acc)
        if bias is not None:
            acc += bias
        out[item, rows] = finish(acc, slice(0, columns))

    run(tile, len(of_a) * bands, work)
    shape = batch + (() if a_vector else (m,)) + (() if b_vector else (columns,))
    return out.array.reshape(shape)


def _minus(q: IntArray, zero_point: IntArray | int, axis: int) -> IntArray:
    """Subtract zero points: one number, one for each row or column (1-d), or already of the same rank."""
    zeros = np.asarray(zero_point, np.int64)
    return exact_blas.centred(q, np.expand_dims(zeros, axis) if zeros.ndim == 1 else zeros)
