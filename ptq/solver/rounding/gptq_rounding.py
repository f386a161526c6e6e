"""Rounding by GPTQ: weights one after another, each compensating the errors of those before it.

Rounding each weight to the nearest integer ignores that the error of one can cancel that of another. With C the
covariance of the inputs and e the weights' errors, the squared error of the sum is eᵀ C e = ‖Lᵀ e‖², C = L Lᵀ. As
Lᵀ is triangular, the weights can be rounded one after another, each after it has taken its share of the errors so
far. This is Babai's nearest plane (1986), with which GPTQ (Frantar et al. 2022) is identical (Chen et al. 2025, "The
Geometry of LLM Quantization"). Inputs of large variance come first, while many weights are left to compensate them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_FLOOR = 1e-9
"""Variance that is always added. Inputs are integers: a smaller variance is none."""
_BLOCK = 32
"""Rows of a block in a factorization."""
_ROWS, _DEPTH, _COLUMNS = 64, 128, 56
"""Sizes of the blocks of a product.

OpenBLAS runs a product of fewer than 2^19 multiplications, and a factorization of one block, on one thread. It splits
larger ones over threads, which may change their last bits.
"""

Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RoundedWeights:
    """Integers, and the mean squared error that they cause in each sum.

    Attributes:
        integers: Whole numbers in float64, without zero point, shape (groups, K, sums).
        error: Shape (groups, sums), in squared LSB of the weight.
    """

    integers: Matrix
    error: Matrix


class DampedCholesky:
    """The Cholesky factor of a damped covariance; it has the same bits on any number of threads."""

    def __init__(self, covariance: Matrix, damping: float | NDArray[np.float64]) -> None:
        """Factor the covariance.

        Args:
            covariance: Shape (groups, K, K).
            damping: Share of the mean variance that is added to each variance, one for all groups or one for each.
                Inputs may vary more than on the samples, by rounding upstream too.
        """
        variance = np.einsum("gkk->gk", covariance)
        self._order = np.argsort(variance, axis=1, kind="stable")
        rows = np.arange(len(covariance))[:, None, None]
        ordered = covariance[rows, self._order[:, :, None], self._order[:, None, :]]
        self._lower = cholesky(add_damping(ordered, damping * variance.mean(axis=1)))

    def round(self, weights: Matrix, lo: Matrix, hi: Matrix) -> RoundedWeights:
        """Round weights in the order of falling variance of their inputs.

        Args:
            weights: Weights in LSB, shape (groups, K, sums).
            lo: Lowest integers, shape (groups, 1, sums).
            hi: Highest integers, shape (groups, 1, sums).
        """
        ordered = np.take_along_axis(weights, self._order[:, :, None], 1)
        integers, errors = np.empty_like(ordered), np.zeros_like(ordered)
        total = np.zeros((ordered.shape[0], ordered.shape[2]))
        lowest, highest = lo[:, 0], hi[:, 0]
        for stop in range(ordered.shape[1], 0, -_BLOCK):
            start = max(stop - _BLOCK, 0)
            lower = self._lower[:, start:, start:stop]
            shares = multiply(lower[:, stop - start :].transpose(0, 2, 1), errors[:, stop:])
            pivots = np.einsum("gkk->gk", lower[:, : stop - start])[:, :, None]
            for k in range(stop - start - 1, -1, -1):
                at = start + k
                compensated = shares[:, k]
                compensated /= pivots[:, k]
                compensated += ordered[:, at]
                q, error = integers[:, at], errors[:, at]
                np.rint(compensated, out=q)
                np.maximum(q, lowest, out=q)
                np.minimum(q, highest, out=q)
                np.subtract(ordered[:, at], q, out=error)
                shares[:, :k] += lower[:, k, :k, None] * error[:, None]
            squares = np.square(pivots * (shares - integers[:, start:stop]))
            for k in range(stop - start - 1, -1, -1):
                total += squares[:, k]
        unsorted = np.empty_like(integers)
        np.put_along_axis(unsorted, self._order[:, :, None], integers, 1)
        return RoundedWeights(unsorted, total)

    def round_to_nearest(self, weights: Matrix, lo: Matrix, hi: Matrix) -> RoundedWeights:
        """Round each weight to the nearest integer; arguments and result are those of `round`."""
        integers = np.clip(np.rint(weights), lo, hi)
        ordered = np.take_along_axis(weights - integers, self._order[:, :, None], 1)
        squares = np.square(multiply(self._lower.transpose(0, 2, 1), ordered))
        return RoundedWeights(integers, squares.sum(axis=1))


def output_error(covariance: Matrix, errors: Matrix) -> Matrix:
    """The mean squared error of each sum, shape (groups, sums), for errors of weights of shape (groups, K, sums)."""
    squares: Matrix = (errors * multiply(covariance, errors)).sum(axis=1)
    return squares


def add_damping(covariance: Matrix, by: NDArray[np.float64]) -> Matrix:
    """Add one number for each group to all variances of a covariance (groups, K, K), in place."""
    diagonal = np.einsum("gkk->gk", covariance)
    diagonal += by[:, None] + _FLOOR
    return covariance


def cholesky(matrix: Matrix) -> Matrix:
    """The lower Cholesky factor of each positive definite matrix (groups, K, K), computed in blocks."""
    lower, size = np.zeros_like(matrix), matrix.shape[1]
    for start in range(0, size, _BLOCK):
        stop = min(start + _BLOCK, size)
        before = lower[:, start:, :start]
        # a copy: for an array times itself numpy calls syrk, which uses all threads at any size
        across = before[:, : stop - start].transpose(0, 2, 1).copy()
        rest = matrix[:, start:, start:stop] - multiply(before, across)
        corner = np.linalg.cholesky(rest[:, : stop - start])
        lower[:, start:stop, start:stop] = corner
        if stop < size:
            inverse = np.linalg.inv(corner).transpose(0, 2, 1)
            lower[:, stop:, start:stop] = multiply(rest[:, stop - start :], inverse)
    return lower


def solve_cholesky(lower: Matrix, right: Matrix) -> Matrix:
    """The solution X of L·Lᵀ·X = right, shape (groups, K, sums), by forward and back substitution in blocks."""
    solution, size = right.copy(), right.shape[1]
    starts = range(0, size, _BLOCK)
    for start in starts:
        stop = min(start + _BLOCK, size)
        corner = np.linalg.inv(lower[:, start:stop, start:stop])
        solved = multiply(lower[:, start:stop, :start], solution[:, :start])
        solution[:, start:stop] = multiply(corner, solution[:, start:stop] - solved)
    for start in reversed(starts):
        stop = min(start + _BLOCK, size)
        corner = np.linalg.inv(lower[:, start:stop, start:stop]).transpose(0, 2, 1)
        solved = multiply(lower[:, stop:, start:stop].transpose(0, 2, 1), solution[:, stop:])
        solution[:, start:stop] = multiply(corner, solution[:, start:stop] - solved)
    return solution


def multiply(a: NDArray[Any], b: Matrix) -> Matrix:
    """The product (groups, M, K) · (groups, K, N), in blocks that each run on one thread."""
    product = np.zeros((len(a), a.shape[1], b.shape[2]))
    for row in range(0, a.shape[1], _ROWS):
        for column in range(0, b.shape[2], _COLUMNS):
            block = product[:, row : row + _ROWS, column : column + _COLUMNS]
            for depth in range(0, a.shape[2], _DEPTH):
                left = a[:, row : row + _ROWS, depth : depth + _DEPTH]
                block += left @ b[:, depth : depth + _DEPTH, column : column + _COLUMNS]
    return product
