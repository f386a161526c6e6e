"""Error compensation: ridge regression of a layer's weights on its quantized inputs.

Let u be the input of a weighted sum in the float model and v the same input in the quantized model. The float model
computes W·u, the quantized one W·v. The weights W + D with D = W·(C_uv − C_vv)·C_vv⁻¹ have the least error: the
regression of the error W·(u − v) on v finds the part that v predicts. A ridge limits D where v hardly varies.
Li et al. 2025, "GPTAQ: Efficient Finetuning-Free Quantization for Asymmetric Calibration", use the same difference
in the rounding of one weight after another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptq.core.decibels import to_error_db
from ptq.observers.covariance import Covariance
from ptq.solver.rounding.gptq_rounding import (
    add_damping,
    factorize_cholesky,
    multiply_in_blocks,
    solve_cholesky,
)

RIDGES = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03)
"""The ridges to try, as shares of the mean variance."""
_STANDARD_ERRORS = 2.0
"""Standard errors by which a larger change must be better than a smaller one."""
MIN_HELD_OUT = 8
"""Held-out samples that a decision needs."""
_NO_ERROR = 1e-10
"""A share of the error that counts as 0; inputs that do not vary leave no more."""
_SUMS_TRIED = 64
"""Weighted sums of a group that decide, evenly spread."""

Matrix = NDArray[np.float64]
Rows = NDArray[np.int16]


@dataclass(eq=False)
class InputPairs:
    """The inputs of a layer in the float model and in the quantized one, as integers of one scale.

    Attributes:
        input_slices: Blocks of inputs that count as independent.
        training: For each block, the second moments of rows (u, v), over the training samples.
        held_out: (u, v) of each held-out sample, both of shape (groups, K, rows).
    """

    input_slices: Sequence[slice]
    training: Sequence[Covariance]
    held_out: list[tuple[Rows, Rows]]

    def add_training(self, u: Rows, v: Rows) -> None:
        """Add the rows of a training sample, both of shape (groups, K, rows)."""
        for inputs, covariance in zip(self.input_slices, self.training, strict=True):
            covariance.update(np.concatenate([u[:, inputs], v[:, inputs]], axis=1))

    def merge_held_out(self) -> InputPairs:
        """A copy in which the held-out samples are training samples too."""
        merged = InputPairs(
            self.input_slices, [c.merge(Covariance(*c.sums.shape)) for c in self.training], []
        )
        for u, v in self.held_out:
            merged.add_training(u, v)
        return merged


@dataclass(frozen=True, eq=False)
class CompensationFit:
    """Compensating weights.

    Attributes:
        weights: Shape (groups, K, sums).
        gain_db: Decibels by which the error of the sums is lower on held-out samples.
    """

    weights: Matrix
    gain_db: float


def fit_compensation(
    weights: Matrix, pairs: InputPairs, *, centred: bool
) -> CompensationFit | None:
    """Weights that compensate the error of the inputs; None if held-out samples do not gain significantly.

    The candidates, from the smallest change to the largest: none, bias only, the largest ridge, …, the smallest
    ridge. The first candidate that is not significantly worse than the best one is taken.

    Args:
        weights: Shape (groups, K, sums).
        pairs: The K inputs in both models.
        centred: Whether the bias is corrected for the mean of the error.
    """
    if len(pairs.held_out) < MIN_HELD_OUT or not all(block.count for block in pairs.training):
        return None
    few = weights[:, :, :: -(-weights.shape[2] // _SUMS_TRIED)]
    before = _compute_held_out_errors(few, few, pairs, centred=False)
    changes = [0 * few, *_compute_weight_changes(pairs, few, RIDGES, centred=centred)]
    after = [
        _compute_held_out_errors(few, few + change, pairs, centred=centred) for change in changes
    ]
    errors = np.stack([before, *after])
    excess = errors - errors[errors.mean(axis=1).argmin()]
    tolerance = _STANDARD_ERRORS * excess.std(axis=1, ddof=1) / math.sqrt(len(before))
    chosen = int(np.argmax(excess.mean(axis=1) <= tolerance))
    if chosen == 0:
        return None
    fitted = weights
    if chosen > 1:
        ridge = RIDGES[chosen - 2 : chosen - 1]
        [change] = _compute_weight_changes(pairs.merge_held_out(), weights, ridge, centred=centred)
        fitted = weights + change
    left = max(errors[chosen].mean() / before.mean(), _NO_ERROR)
    return CompensationFit(fitted, -to_error_db(left))


def _compute_weight_changes(
    pairs: InputPairs, weights: Matrix, ridges: Sequence[float], *, centred: bool
) -> list[Matrix]:
    """D for each ridge, of the shape of the weights."""
    changes = [np.empty_like(weights) for _ in ridges]
    for inputs, block in zip(pairs.input_slices, pairs.training, strict=True):
        rows, some = block.rows, weights[:, inputs]
        if rows is not None and rows.shape[2] < some.shape[1]:
            found = _solve_by_rows(rows, some, ridges, centred=centred)
        else:
            found = _solve_by_moments(block, some, ridges, centred=centred)
        for change, part in zip(changes, found, strict=True):
            change[:, inputs] = part
    return changes


def _solve_by_moments(
    block: Covariance, weights: Matrix, ridges: Sequence[float], *, centred: bool
) -> Iterator[Matrix]:
    length = weights.shape[1]
    across, of_v = np.split(block.second_moment(centred=centred, first=length), 2, axis=2)
    right = multiply_in_blocks(across - of_v, weights)
    variance = np.einsum("gkk->g", of_v) / length
    for ridge in ridges:
        yield solve_cholesky(factorize_cholesky(add_damping(of_v.copy(), ridge * variance)), right)


def _solve_by_rows(
    rows: Rows, weights: Matrix, ridges: Sequence[float], *, centred: bool
) -> Iterator[Matrix]:
    """The same from fewer rows than inputs: the system has one unknown for each row.

    With V the rows of v and U those of u, (V·Vᵀ + r)⁻¹·V·(U − V)ᵀ = V·(Vᵀ·V + r)⁻¹·(U − V)ᵀ for each ridge r.
    """
    scaled = rows / math.sqrt(rows.shape[2])
    if centred:
        scaled -= scaled.mean(axis=2, keepdims=True)
    u, v = np.split(scaled, 2, axis=1)
    right = multiply_in_blocks((u - v).transpose(0, 2, 1), weights)
    variance = np.square(v).sum(axis=(1, 2)) / v.shape[1]
    # a copy: for an array times itself numpy calls syrk, which uses all threads at any size
    inner = multiply_in_blocks(v.transpose(0, 2, 1).copy(), v)
    for ridge in ridges:
        lower = factorize_cholesky(add_damping(inner.copy(), ridge * variance))
        yield multiply_in_blocks(v, solve_cholesky(lower, right))


def _compute_held_out_errors(
    float_weights: Matrix, fitted: Matrix, pairs: InputPairs, *, centred: bool
) -> Matrix:
    shift = np.zeros((len(float_weights), 1, float_weights.shape[2]))
    for inputs, block in zip(pairs.input_slices, pairs.training, strict=True):
        if centred:
            of_u, of_v = np.split(block.sums[:, None] / block.count, 2, axis=2)
            shift += multiply_in_blocks(of_u, float_weights[:, inputs]) - multiply_in_blocks(
                of_v, fitted[:, inputs]
            )
    errors = (
        multiply_in_blocks(u.transpose(0, 2, 1), float_weights)
        - multiply_in_blocks(v.transpose(0, 2, 1), fitted)
        - shift
        for u, v in pairs.held_out
    )
    return np.array([float(np.square(error).sum()) for error in errors])
