"""Which integers make the smallest error in a weighted sum, given how its inputs vary together?

Rounding each weight to the nearest integer ignores that the error of one can take back that of another. With C the
covariance of the inputs and e the weights' errors, the sum's squared error is eᵀ C e = ‖Lᵀ e‖², C = L Lᵀ. As Lᵀ is
triangular, the weights can be rounded one after another, each after the errors made so far have been shared out
onto it: Babai's nearest plane (1986), which GPTQ (Frantar et al. 2022) is (Chen et al. 2025, "The Geometry of LLM
Quantization"). Inputs of much variance come first, while there are others left that can make up for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_FLOOR = 1e-9  # codes vary in steps of 1: what is below has not varied
_BLOCK = 32

# OpenBLAS gives a product below 2^19 multiplications, and a factorization this small, to one thread. How it shares
# out larger ones may change their last bits.
_ROWS, _DEPTH, _COLUMNS = 64, 128, 56

Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RoundedWeights:
    """Integers, and the mean square of the error that they make in each sum.

    Attributes:
        integers: float64, whole numbers less the zero point, shape (groups, K, sums).
        error: Shape (groups, sums), in squares of the weight's step.
    """

    integers: Matrix
    error: Matrix


class DampedCholesky:
    """A covariance (groups, K, K), damped and factored; the same bits on any number of threads."""

    def __init__(self, covariance: Matrix, damping: float | NDArray[np.float64]) -> None:
        """Damp by that share of the mean variance: what was not seen to vary may, upstream rounding included.

        One share for all groups, or one each.
        """
        variance = np.einsum("gkk->gk", covariance)
        self._order = np.argsort(variance, axis=1, kind="stable")
        rows = np.arange(len(covariance))[:, None, None]
        ordered = covariance[rows, self._order[:, :, None], self._order[:, None, :]]
        self._lower = cholesky(add_damping(ordered, damping * variance.mean(axis=1)))

    def round(self, weights: Matrix, lo: Matrix, hi: Matrix) -> RoundedWeights:
        """Integers within [lo, hi], shape (groups, 1, sums), for weights (groups, K, sums) in units of their step."""
        steps = np.take_along_axis(weights, self._order[:, :, None], 1)
        integers, errors = np.empty_like(steps), np.zeros_like(steps)
        total = np.zeros((steps.shape[0], steps.shape[2]))
        lowest, highest = lo[:, 0], hi[:, 0]
        for stop in range(steps.shape[1], 0, -_BLOCK):
            start = max(stop - _BLOCK, 0)
            lower = self._lower[:, start:, start:stop]
            shares = multiply(lower[:, stop - start :].transpose(0, 2, 1), errors[:, stop:])
            pivots = np.einsum("gkk->gk", lower[:, : stop - start])[:, :, None]
            for k in range(stop - start - 1, -1, -1):
                at = start + k
                wanted = shares[:, k]
                wanted /= pivots[:, k]
                wanted += steps[:, at]
                q, error = integers[:, at], errors[:, at]
                np.rint(wanted, out=q)
                np.maximum(q, lowest, out=q)
                np.minimum(q, highest, out=q)
                np.subtract(steps[:, at], q, out=error)
                shares[:, :k] += lower[:, k, :k, None] * error[:, None]
            squares = np.square(pivots * (shares - integers[:, start:stop]))
            for k in range(stop - start - 1, -1, -1):
                total += squares[:, k]
        unsorted = np.empty_like(integers)
        np.put_along_axis(unsorted, self._order[:, :, None], integers, 1)
        return RoundedWeights(unsorted, total)

    def round_to_nearest(self, weights: Matrix, lo: Matrix, hi: Matrix) -> RoundedWeights:
        """Each weight's nearest integer, with the error as `round` counts it."""
        integers = np.clip(np.rint(weights), lo, hi)
        ordered = np.take_along_axis(weights - integers, self._order[:, :, None], 1)
        squares = np.square(multiply(self._lower.transpose(0, 2, 1), ordered))
        return RoundedWeights(integers, squares.sum(axis=1))


def output_error(covariance: Matrix, errors: Matrix) -> Matrix:
    """The mean square that weights' errors (groups, K, sums) make in each sum, shape (groups, sums)."""
    squares: Matrix = (errors * multiply(covariance, errors)).sum(axis=1)
    return squares


def add_damping(covariance: Matrix, by: NDArray[np.float64]) -> Matrix:
    """The covariance (groups, K, K), each variance greater by what its group is damped by, in place."""
    diagonal = np.einsum("gkk->gk", covariance)
    diagonal += by[:, None] + _FLOOR
    return covariance


def cholesky(matrix: Matrix) -> Matrix:
    """The lower factor of each positive definite matrix (groups, K, K), block after block."""
    lower, size = np.zeros_like(matrix), matrix.shape[1]
    for start in range(0, size, _BLOCK):
        stop = min(start + _BLOCK, size)
        before = lower[:, start:, :start]
        # a copy: of one array with itself numpy makes a syrk, which takes all threads at any size
        across = before[:, : stop - start].transpose(0, 2, 1).copy()
        rest = matrix[:, start:, start:stop] - multiply(before, across)
        corner = np.linalg.cholesky(rest[:, : stop - start])
        lower[:, start:stop, start:stop] = corner
        if stop < size:
            inverse = np.linalg.inv(corner).transpose(0, 2, 1)
            lower[:, stop:, start:stop] = multiply(rest[:, stop - start :], inverse)
    return lower


def solve_cholesky(lower: Matrix, right: Matrix) -> Matrix:
    """What L·Lᵀ takes to the right side (groups, K, sums): forward and back, block by block."""
    solution, size = right.copy(), right.shape[1]
    starts = range(0, size, _BLOCK)
    for start in starts:
        stop = min(start + _BLOCK, size)
        corner = np.linalg.inv(lower[:, start:stop, start:stop])
        known = multiply(lower[:, start:stop, :start], solution[:, :start])
        solution[:, start:stop] = multiply(corner, solution[:, start:stop] - known)
    for start in reversed(starts):
        stop = min(start + _BLOCK, size)
        corner = np.linalg.inv(lower[:, start:stop, start:stop]).transpose(0, 2, 1)
        known = multiply(lower[:, stop:, start:stop].transpose(0, 2, 1), solution[:, stop:])
        solution[:, start:stop] = multiply(corner, solution[:, start:stop] - known)
    return solution


def multiply(a: NDArray[Any], b: Matrix) -> Matrix:
    """(groups, M, K) times (groups, K, N), each piece on one thread."""
    product = np.zeros((len(a), a.shape[1], b.shape[2]))
    for row in range(0, a.shape[1], _ROWS):
        for column in range(0, b.shape[2], _COLUMNS):
            part = product[:, row : row + _ROWS, column : column + _COLUMNS]
            for depth in range(0, a.shape[2], _DEPTH):
                left = a[:, row : row + _ROWS, depth : depth + _DEPTH]
                part += left @ b[:, depth : depth + _DEPTH, column : column + _COLUMNS]
    return product
