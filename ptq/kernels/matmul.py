"""Exact accumulators of a matrix product.

    acc[…, m, n] = bias[n] + Σ_k (a[…, m, k] − a_zero_point)·(b[…, k, n] − b_zero_point)

`exact_blas` decides whether float32 is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import ModelError
from ptq.core.types import FloatArray, IntArray, QType
from ptq.kernels import exact_blas, window_view
from ptq.kernels.accumulate import OutputStage
from ptq.kernels.requantizer import Requantizer
from ptq.kernels.thread_pool import TiledOutput, choose_tile_count, get_scratch_buffer, run_tiles

# Elements of a tile's operand and accumulator together: 1 MiB of float32, so that overhead is negligible.
_TILE_ELEMENTS = 2**18
_BLOCK_ROWS = 48
_MIN_TILE_ROWS = 16


def prepare_matrix_product(
    w: IntArray, bias: NDArray[np.int32] | None, a_qtype: QType, a_zero_point: int
) -> Callable[[IntArray, Requantizer], IntArray]:
    """Prepare the product of integer rows (M, K) with a matrix (K, N) whose zero point is already subtracted."""
    depth, columns = w.shape
    plan = exact_blas.plan_accumulation(w, bias, a_qtype.dtype, a_zero_point)
    packed = exact_blas.pack(w, plan.lo, plan.hi)
    output_stage = OutputStage(plan)

    def product(a: IntArray, requantize: Requantizer) -> IntArray:
        if a.shape[1] != depth:
            raise ModelError(f"{a.shape[1]} columns meet {depth} rows; check the operands' shapes")
        total = len(a)
        work = exact_blas.estimate_nanoseconds(total, depth, columns)
        height = choose_rows_per_tile(total, depth + columns, work)
        out = TiledOutput((total, columns))

        def tile(i: int) -> None:
            rows = slice(i * height, min((i + 1) * height, total))
            left = to_float32(a[rows], plan.offset)
            acc = get_scratch_buffer("acc", (rows.stop - rows.start, columns), output_stage.dtype)
            exact_blas.multiply_with_blas(left, packed, acc)
            out[rows] = output_stage.apply(acc, requantize)

        run_tiles(tile, max(1, -(-total // height)), work)
        return out.array

    return product


def choose_rows_per_tile(total: int, width: int, work: float) -> int:
    """Return the number of rows in a tile: as many as fit the cache, and a share for every thread."""
    bands = max(
        1, choose_tile_count(-(-total * width // _TILE_ELEMENTS), total // _MIN_TILE_ROWS, work)
    )
    height = max(1, -(-total // bands))
    # Long tiles are cut into blocks of 48 rows; a short tile is one block.
    return height if height < 10 * _BLOCK_ROWS else -(-height // _BLOCK_ROWS) * _BLOCK_ROWS


def to_float32(a: IntArray, offset: int | IntArray) -> FloatArray:
    """Return a − offset in float32, in a scratch buffer; the offset is one number or an array that broadcasts."""
    left: FloatArray = get_scratch_buffer("left", a.shape)
    window_view.copy_minus_offset(a, offset, left)
    return left


def prepare_matmul_by_constant(
    b: IntArray,
    bias: NDArray[np.int32] | None,
    *,
    a_qtype: QType,
    a_zero_point: IntArray | int,
    b_qtype: QType,
    b_zero_point: IntArray | int,
) -> Callable[[IntArray, Requantizer], IntArray]:
    """Prepare a product with a constant right operand.

    Args:
        b: Shape (K, N), (…, K, N), or (K,), as in ONNX MatMul.
        bias: Shape (N,), in units of the accumulator, or None.
        a_qtype: Type of a.
        a_zero_point: One number, or one for each row of a.
        b_qtype: Type of b.
        b_zero_point: One number, or one for each column of b.

    Raises:
        ModelError: The shapes do not fit each other.
    """
    if b.ndim == 2 and np.ndim(a_zero_point) == 0:
        rows = prepare_matrix_product(
            _subtract_zero_points(b, b_zero_point, -2), bias, a_qtype, int(a_zero_point)
        )
        columns = b.shape[1]

        def flat(a: IntArray, requantize: Requantizer) -> IntArray:
            return rows(a.reshape(-1, a.shape[-1]), requantize).reshape(*a.shape[:-1], columns)

        return flat
    packed = _pack_matrices(b, b_zero_point, *_compute_value_range(a_qtype, a_zero_point))
    return lambda a, requantize: _multiply_matrices(
        a, a_zero_point, b.shape, packed, bias, requantize
    )


def prepare_matmul_of_activations(
    *,
    a_qtype: QType,
    a_zero_point: IntArray | int,
    b_qtype: QType,
    b_zero_point: IntArray | int,
) -> Callable[[IntArray, IntArray, Requantizer], IntArray]:
    """Prepare a product of two operands that are both computed at run time, as in ONNX MatMul.

    Args:
        a_qtype: Type of a, shape (…, M, K) or (K,).
        a_zero_point: One number, or one for each row of a.
        b_qtype: Type of b, shape (…, K, N) or (K,).
        b_zero_point: One number, or one for each column of b.

    Raises:
        ModelError: The shapes do not fit each other.
    """
    interval = _compute_value_range(a_qtype, a_zero_point)
    largest = max(map(abs, interval)) * max(map(abs, _compute_value_range(b_qtype, b_zero_point)))
    scalar_zero_points = np.ndim(a_zero_point) == np.ndim(b_zero_point) == 0

    def multiply(a: IntArray, b: IntArray, requantize: Requantizer) -> IntArray:
        is_exact = largest * a.shape[-1] <= exact_blas.FLOAT32_EXACT_MAX
        if (
            scalar_zero_points
            and is_exact
            and a.ndim > 1
            and b.ndim > 1
            and exact_blas.is_single_threaded(a, b)
        ):
            return _multiply_small_matrices(a, b, int(a_zero_point), int(b_zero_point), requantize)
        return _multiply_matrices(
            a, a_zero_point, b.shape, _pack_matrices(b, b_zero_point, *interval), None, requantize
        )

    return multiply


def _multiply_small_matrices(
    a: IntArray, b: IntArray, a_zero_point: int, b_zero_point: int, requantize: Requantizer
) -> IntArray:
    """Multiply many small matrices of a with those of b, several in one call.

    float32 must hold every sum of a product exactly.
    """
    (m, depth), (rows, columns) = a.shape[-2:], b.shape[-2:]
    if depth != rows:
        raise ModelError(f"{depth} columns meet {rows} rows; check the operands' shapes")
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    left = np.broadcast_to(a, (*batch, m, depth)).reshape(-1, m, depth)
    right = np.broadcast_to(b, (*batch, depth, columns)).reshape(-1, depth, columns)
    total = len(left)
    most = max(1, _TILE_ELEMENTS // max(1, m * depth + depth * columns + m * columns))
    work = exact_blas.estimate_nanoseconds(total * m, depth, columns)
    each = max(1, -(-total // max(1, choose_tile_count(-(-total // most), total, work))))
    out = TiledOutput((total, m, columns))

    def tile(i: int) -> None:
        part = slice(i * each, min((i + 1) * each, total))
        second = get_scratch_buffer("right", right[part].shape)
        window_view.copy_minus_offset(right[part], b_zero_point, second)
        acc = get_scratch_buffer("acc", (part.stop - part.start, m, columns))
        np.matmul(to_float32(left[part], a_zero_point), second, out=acc)
        out[part] = requantize(acc.reshape(-1, columns), slice(0, columns)).reshape(acc.shape)

    run_tiles(tile, max(1, -(-total // each)), work)
    return out.array.reshape(*batch, m, columns)


def _compute_value_range(qtype: QType, zero_point: IntArray | int) -> tuple[int, int]:
    """Return the least and the greatest value of q − zero_point."""
    info = np.iinfo(qtype.dtype)
    return int(info.min) - int(np.max(zero_point)), int(info.max) - int(np.min(zero_point))


def _pack_matrices(
    b: IntArray, zero_point: IntArray | int, lo: int, hi: int
) -> list[exact_blas.PackedMatrix]:
    """Pack every matrix of b (…, K, N) or (K,)."""
    wide = _subtract_zero_points(b[:, None] if b.ndim == 1 else b, zero_point, -2)
    matrices = wide.reshape(-1, *wide.shape[-2:])
    packed: list[exact_blas.PackedMatrix] = [exact_blas.pack(matrices[0], lo, hi)] * len(matrices)

    def tile(i: int) -> None:
        packed[i] = exact_blas.pack(matrices[i], lo, hi)

    run_tiles(tile, len(matrices), 10.0 * wide.size)
    return packed


def _multiply_matrices(
    a: IntArray,
    a_zero_point: IntArray | int,
    b_shape: tuple[int, ...],
    packed: list[exact_blas.PackedMatrix],
    bias: NDArray[np.int32] | None,
    requantize: Requantizer,
) -> IntArray:
    """Multiply every matrix of a with its matrix of b; batch axes broadcast."""
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
    work = exact_blas.estimate_nanoseconds(len(of_a) * m, depth, columns)
    height = choose_rows_per_tile(m * len(of_a), depth + columns, work)
    bands = -(-m // height)
    out = TiledOutput((len(of_a), m, columns))

    def tile(i: int) -> None:
        item, band = divmod(i, bands)
        rows = slice(band * height, min((band + 1) * height, m))
        offset = spread[of_a[item], rows] if scalar is None else scalar
        operand = packed[of_b[item]]
        # The bound of exactness in float32 does not include a bias.
        real = operand.exact and bias is None
        acc = get_scratch_buffer(
            "acc", (rows.stop - rows.start, columns), np.float32 if real else np.int32
        )
        exact_blas.multiply_with_blas(to_float32(left[of_a[item], rows], offset), operand, acc)
        if bias is not None:
            acc += bias
        out[item, rows] = requantize(acc, slice(0, columns))

    run_tiles(tile, len(of_a) * bands, work)
    shape = batch + (() if a_vector else (m,)) + (() if b_vector else (columns,))
    return out.array.reshape(shape)


def _subtract_zero_points(q: IntArray, zero_point: IntArray | int, axis: int) -> IntArray:
    """Subtract zero points: one number, one for each row or column (1-d), or an array of the same rank."""
    zeros = np.asarray(zero_point, np.int64)
    return exact_blas.subtract_zero_points(
        q, np.expand_dims(zeros, axis) if zeros.ndim == 1 else zeros
    )
