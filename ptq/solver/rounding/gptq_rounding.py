"""Rounding by GPTQ: weights one after another, each compensating the errors of those before it.

Rounding each weight to the nearest integer ignores that the error of one can cancel that of another. With C the
covariance of the inputs and e the weights' errors, the squared error of the sum is eᵀ C e = ‖Lᵀ e‖², C = L Lᵀ. As
Lᵀ is triangular, the weights can be rounded one after another, each after it has taken its share of the errors so
far. This is Babai's nearest plane (1986), with which GPTQ (Frantar et al. 2022) is identical (Chen et al. 2025, "The
Geometry of LLM Quantization"). Inputs of large variance come first, while many weights are left to compensate them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

_FLOOR = 1e-9
"""Variance that is always added. Inputs are integers: a smaller variance is none."""
_BLOCK = 32
"""Rows of a block in a factorization."""
_ROWS, _COLUMNS = 64, 56
"""Sizes of the blocks of a product."""
_BLOCK_PRODUCTS = 2**19
"""OpenBLAS runs a product of fewer multiplications, and a factorization of one block, on one thread.

It splits larger ones over threads, which may change their last bits.
"""
_VECTOR_DEPTH, _MAX_DEPTH = 128, 512
"""Products that are added at once, for a vector and at most."""

Matrix = NDArray[np.float64]
Single = NDArray[np.float32]
Real = TypeVar("Real", NDArray[np.float32], NDArray[np.float64])


@dataclass(frozen=True, eq=False)
class RoundedWeights:
    """Integers, and the mean squared error that they cause in each sum.

    Attributes:
        integers: Whole numbers in float32, without zero point, shape (groups, K, sums).
        error: Shape (groups, sums), in squared LSB of the weight.
    """

    integers: Single
    error: Single


class SortedCovariance:
    """A covariance with its inputs in ascending order of variance, in which weights are rounded from the last on.

    It is in float32. The smallest damping, a share of 0.02, limits the condition of a block of 1536 inputs to 1e5.
    """

    def __init__(self, covariance: Matrix) -> None:
        """Take a covariance of shape (groups, K, K)."""
        variance = np.einsum("gkk->gk", covariance)
        self.mean_variance: Matrix = variance.mean(axis=1)
        self.order: NDArray[np.intp] = np.argsort(variance, axis=1, kind="stable")
        self.values: Single = _reorder_both(covariance.astype(np.float32), self.order)


class DampedCholesky:
    """The Cholesky factors of a damped covariance; they have the same bits on any number of threads."""

    def __init__(self, covariance: SortedCovariance, dampings: Sequence[float]) -> None:
        """Factor the covariance, once for each damping.

        Args:
            covariance: The covariance of some groups.
            dampings: Shares of the mean variance that are added to each variance. Inputs may vary more than on the
                samples, by rounding upstream too.
        """
        self._order = np.tile(covariance.order, (len(dampings), 1))
        damped = np.tile(covariance.values, (len(dampings), 1, 1))
        by = np.multiply.outer(np.asarray(dampings), covariance.mean_variance).reshape(-1)
        self._lower: Single = factorize_cholesky(add_damping(damped, by))

    def round(self, weights: Single, lo: Single, hi: Single) -> RoundedWeights:
        """Round weights in the order of falling variance of their inputs.

        The groups are those of the covariance for the first damping, then for the second, and so on.

        Args:
            weights: Weights in LSB, shape (groups, K, sums).
            lo: Lowest integers, shape (groups, 1, sums).
            hi: Highest integers, shape (groups, 1, sums).
        """
        ordered = _reorder(weights, self._order)
        integers, errors = np.empty_like(ordered), np.zeros_like(ordered)
        total = np.zeros((ordered.shape[0], ordered.shape[2]), ordered.dtype)
        bounds = np.ascontiguousarray(lo[:, 0]), np.ascontiguousarray(hi[:, 0])
        for stop in range(ordered.shape[1], 0, -_BLOCK):
            start = max(stop - _BLOCK, 0)
            pivots = np.einsum("gkk->gk", self._lower[:, start:stop, start:stop])[:, None]
            lower = self._lower[:, start:, start:stop] / pivots
            # the weights and what they take of the errors so far
            goals = multiply_in_blocks(
                lower[:, stop - start :].transpose(0, 2, 1), errors[:, stop:]
            )
            goals += ordered[:, start:stop]
            block = slice(start, stop)
            integers[:, block], errors[:, block] = _round_block(
                ordered[:, block], goals, lower[:, : stop - start], *bounds
            )
            goals -= integers[:, block]
            goals *= pivots.transpose(0, 2, 1)
            total += np.square(goals, out=goals).sum(axis=1)
        return RoundedWeights(_reorder(integers, np.argsort(self._order, axis=1)), total)

    def has_more_error(self, errors: Single, than: Single) -> NDArray[np.bool_]:
        """Whether errors of weights cause a larger error in each sum, shape (groups, sums).

        Args:
            errors: Errors of the weights in LSB, shape (groups, K, sums).
            than: The mean squared error of each sum to compare with, in squared LSB.
        """
        ordered = _reorder(errors, self._order)
        total = np.zeros_like(than)
        # inputs of large variance, whose products are short, decide most sums
        for stop in range(ordered.shape[1], 0, -_ROWS):
            start = max(stop - _ROWS, 0)
            lower = self._lower[:, start:, start:stop].transpose(0, 2, 1)
            total += np.square(multiply_in_blocks(lower, ordered[:, start:])).sum(axis=1)
            if np.all(total > than):
                break
        return total > than


def _round_block(
    weights: Single, goals: Single, lower: Single, lowest: Single, highest: Single
) -> tuple[Single, Single]:
    """Round the weights of a block, from the last on; each takes its share of the errors of those after it.

    Args:
        weights: Weights in LSB, shape (groups, K, sums).
        goals: The weights and what they take of the errors of later blocks, same shape. They take those of this
            block too, in place.
        lower: The factor of the block over its diagonal, shape (groups, K, K).
        lowest: Lowest integers, shape (groups, sums).
        highest: Highest integers, shape (groups, sums).

    Returns:
        The integers and their errors, both of the shape of the weights.
    """
    # the rows of one weight are contiguous
    given, wanted = (np.array(some.transpose(1, 0, 2), order="C") for some in (weights, goals))
    factors = np.array(lower.transpose(1, 2, 0), order="C")[..., None]
    integers, errors, shares = (np.empty_like(given) for _ in range(3))
    for k in reversed(range(len(given))):
        q, error = integers[k], errors[k]
        np.rint(wanted[k], out=q)
        np.maximum(q, lowest, out=q)
        np.minimum(q, highest, out=q)
        np.subtract(given[k], q, out=error)
        np.multiply(factors[k, :k], error, out=shares[:k])
        np.add(wanted[:k], shares[:k], out=wanted[:k])
    goals[:] = wanted.transpose(1, 0, 2)
    return integers.transpose(1, 0, 2), errors.transpose(1, 0, 2)


def _reorder(values: Single, order: NDArray[np.intp]) -> Single:
    """The values of each group in the order of the group, along axis 1."""
    if len(order) == 1:  # faster
        of_group: Single = values.take(order[0], axis=1)
        return of_group
    sorted_values: Single = np.take_along_axis(values, order[:, :, None], 1)
    return sorted_values


def _reorder_both(values: Single, order: NDArray[np.intp]) -> Single:
    """The values of each group in the order of the group, along both axes of a square."""
    if len(order) == 1:  # faster
        of_group: Single = values.take(order[0], axis=1).take(order[0], axis=2)
        return of_group
    groups, length = order.shape
    row = (np.arange(groups)[:, None] * length + order) * length
    sorted_values: Single = values.reshape(-1).take(row[:, :, None] + order[:, None])
    return sorted_values


def compute_output_error(covariance: Matrix, errors: Matrix) -> Matrix:
    """The mean squared error of each sum, shape (groups, sums), for errors of weights of shape (groups, K, sums)."""
    squares: Matrix = (errors * multiply_in_blocks(covariance, errors)).sum(axis=1)
    return squares


def add_damping(covariance: Real, by: NDArray[np.float64]) -> Real:
    """Add one number for each group to all variances of a covariance (groups, K, K), in place."""
    diagonal = np.einsum("gkk->gk", covariance)
    diagonal += (by[:, None] + _FLOOR).astype(covariance.dtype)
    return covariance


def factorize_cholesky(matrix: Real) -> Real:
    """The lower Cholesky factor of each positive definite matrix (groups, K, K), computed in blocks."""
    size = matrix.shape[1]
    if size <= _BLOCK:
        return np.linalg.cholesky(matrix).astype(matrix.dtype, copy=False)
    lower = np.zeros_like(matrix)
    for start in range(0, size, _BLOCK):
        stop = min(start + _BLOCK, size)
        before = lower[:, start:, :start]
        # a copy: for an array times itself numpy calls syrk, which uses all threads at any size
        across = before[:, : stop - start].transpose(0, 2, 1).copy()
        rest = matrix[:, start:, start:stop] - multiply_in_blocks(before, across)
        corner = np.linalg.cholesky(rest[:, : stop - start])
        lower[:, start:stop, start:stop] = corner
        if stop < size:
            inverse = np.linalg.inv(corner).transpose(0, 2, 1)
            lower[:, stop:, start:stop] = multiply_in_blocks(rest[:, stop - start :], inverse)
    return lower


def solve_cholesky(lower: Matrix, right: Matrix) -> Matrix:
    """The solution X of L·Lᵀ·X = right, shape (groups, K, sums), by forward and back substitution in blocks."""
    solution, size = right.copy(), right.shape[1]
    blocks = [slice(start, min(start + _BLOCK, size)) for start in range(0, size, _BLOCK)]
    inverses = [np.linalg.inv(lower[:, block, block]) for block in blocks]
    for block, inverse in zip(blocks, inverses, strict=True):
        before = slice(block.start)
        solved = multiply_in_blocks(lower[:, block, before], solution[:, before])
        solution[:, block] = multiply_in_blocks(inverse, solution[:, block] - solved)
    for block, inverse in zip(reversed(blocks), reversed(inverses), strict=True):
        after = slice(block.stop, None)
        solved = multiply_in_blocks(lower[:, after, block].transpose(0, 2, 1), solution[:, after])
        solution[:, block] = multiply_in_blocks(
            inverse.transpose(0, 2, 1), solution[:, block] - solved
        )
    return solution


def multiply_in_blocks(a: NDArray[Any], b: Real) -> Real:
    """The product (groups, M, K) · (groups, K, N), in blocks that each run on one thread."""
    product = np.zeros((len(a), a.shape[1], b.shape[2]), b.dtype)
    if not product.size:
        return product
    rows, columns = _list_equal_slices(a.shape[1], _ROWS), _list_equal_slices(b.shape[2], _COLUMNS)
    # numpy calls another function of OpenBLAS for a vector, which runs on one thread below 9216 multiplications
    is_vector = 1 in product.shape[1:]
    area = min(_ROWS, a.shape[1]) * min(_COLUMNS, b.shape[2])
    depth = _VECTOR_DEPTH if is_vector else min((_BLOCK_PRODUCTS - 1) // area, _MAX_DEPTH)
    for row in rows:
        for column in columns:
            block = product[:, row, column]
            for start in range(0, a.shape[2], depth):
                block += a[:, row, start : start + depth] @ b[:, start : start + depth, column]
    return product


def _list_equal_slices(length: int, longest: int) -> list[slice]:
    """Slices of a length, which differ by at most 1: none is much shorter than the others."""
    count = -(-length // longest)
    edges = [length * i // count for i in range(count + 1)]
    return [slice(a, b) for a, b in itertools.pairwise(edges)]
