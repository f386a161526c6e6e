"""Which weights on rounded inputs come nearest to float's weighted sums, and is that more than chance?

With u the input of a sum as the float model has it and v as the quantized one has it, W·u is wanted and W·v is had.
The weights W + D with D = W·(C_uv − C_vv)·C_vv⁻¹ lose the least: a regression of the error on v finds what v tells of
it. A ridge holds D back where v hardly varies. Li et al. 2025, "GPTAQ", feed the same difference into the rounding of
one weight after another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptq.observers.covariance import Covariance
from ptq.solver.rounding.gptq_rounding import add_damping, cholesky, multiply, solve_cholesky

RIDGES = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03)
"""What is tried: shares of the mean variance."""
_STANDARD_ERRORS = 2.0
"""Standard errors by which something bolder must be better than what changes less."""
MIN_HELD_OUT = 8  # held-out samples
_NO_ERROR = 1e-10
"""Share of the error that counts as nothing: inputs that do not vary leave as little."""
_SUMS_TRIED = 64  # sums of a group that decide, evenly spread

Matrix = NDArray[np.float64]
Rows = NDArray[np.int16]


@dataclass(eq=False)
class InputPairs:
    """A node's inputs in the float model and in the quantized one, as integers of one scale.

    Attributes:
        inputs: The inputs cut into parts that count as independent.
        learnt: Of each part, of rows that hold all of u and then all of v, over most samples.
        held: (u, v) of each of the others, both (groups, rows, K).
    """

    input_slices: Sequence[slice]
    training: Sequence[Covariance]
    held_out: list[tuple[Rows, Rows]]

    def add_training(self, u: Rows, v: Rows) -> None:
        """Take in rows of a sample that is learnt from."""
        for inputs, covariance in zip(self.input_slices, self.training, strict=True):
            covariance.update(np.concatenate([u[:, :, inputs], v[:, :, inputs]], axis=2))

    def merge_held_out(self) -> InputPairs:
        """What would have been learnt from all samples."""
        both = InputPairs(
            self.input_slices, [c.merge(Covariance(*c.sums.shape)) for c in self.training], []
        )
        for u, v in self.held_out:
            both.add_training(u, v)
        return both


@dataclass(frozen=True, eq=False)
class CompensationFit:
    """The weights that come nearest.

    Attributes:
        weights: Shape (groups, K, sums).
        gain_db: Decibels by which the error is less on held-out samples.
    """

    weights: Matrix
    gain_db: float


def fit_compensation(
    weights: Matrix, pairs: InputPairs, *, centred: bool
) -> CompensationFit | None:
    """What makes up for the error of the inputs; None where held-out samples do not gain by more than chance.

    Of what is tried, the mildest that is not worse than the best by more than chance: nothing at all, the bias alone,
    the largest ridge, and so on.

    Args:
        weights: Shape (groups, K, sums).
        pairs: Of all K inputs.
        centred: Whether the bias takes back the mean of the error.
    """
    if len(pairs.held_out) < MIN_HELD_OUT or not all(learnt.count for learnt in pairs.training):
        return None
    few = weights[:, :, :: -(-weights.shape[2] // _SUMS_TRIED)]
    before = _held_out_errors(few, few, pairs, centred=False)
    changes = [0 * few, *_weight_changes(pairs, few, RIDGES, centred=centred)]
    after = [_held_out_errors(few, few + change, pairs, centred=centred) for change in changes]
    tried = np.stack([before, *after])
    worse = tried - tried[tried.mean(axis=1).argmin()]
    chance = _STANDARD_ERRORS * worse.std(axis=1, ddof=1) / math.sqrt(len(before))
    mildest = int(np.argmax(worse.mean(axis=1) <= chance))
    if mildest == 0:
        return None
    made = weights
    if mildest > 1:
        ridge = RIDGES[mildest - 2 : mildest - 1]
        [change] = _weight_changes(pairs.merge_held_out(), weights, ridge, centred=centred)
        made = weights + change
    left = max(tried[mildest].mean() / before.mean(), _NO_ERROR)
    return CompensationFit(made, -10 * math.log10(left))


def _weight_changes(
    pairs: InputPairs, weights: Matrix, ridges: Sequence[float], *, centred: bool
) -> list[Matrix]:
    """D for each ridge, shaped as the weights."""
    changes = [np.empty_like(weights) for _ in ridges]
    for inputs, learnt in zip(pairs.input_slices, pairs.training, strict=True):
        length, moment = inputs.stop - inputs.start, learnt.second_moment(centred=centred)
        of_v, across = moment[:, length:, length:], moment[:, length:, :length]
        told = multiply(across - of_v, weights[:, inputs])
        variance = np.einsum("gkk->g", of_v) / length
        for ridge, change in zip(ridges, changes, strict=True):
            lower = cholesky(add_damping(of_v.copy(), ridge * variance))
            change[:, inputs] = solve_cholesky(lower, told)
    return changes


def _held_out_errors(wanted: Matrix, made: Matrix, pairs: InputPairs, *, centred: bool) -> Matrix:
    """Of each held-out sample, the energy of its sums' error."""
    shift = np.zeros((len(wanted), 1, wanted.shape[2]))
    for inputs, learnt in zip(pairs.input_slices, pairs.training, strict=True):
        if centred:
            means = np.split(learnt.sums[:, None] / learnt.count, 2, axis=2)
            shift += multiply(means[0], wanted[:, inputs]) - multiply(means[1], made[:, inputs])
    errors = (multiply(u, wanted) - multiply(v, made) - shift for u, v in pairs.held_out)
    return np.array([float(np.square(error).sum()) for error in errors])
