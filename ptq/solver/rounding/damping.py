"""The damping of a node's covariance, chosen by the error on held-out samples, and rounding with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import QuantParams
from ptq.observers.input_statistics import CovarianceBlock
from ptq.solver.rounding.gptq_rounding import DampedCholesky, output_error
from ptq.solver.rounding.weighted_sums import LinearOp

DAMPINGS = (0.02, 0.1, 0.4, 1.5)
"""Dampings to try, as shares of the mean variance."""
_DEFAULT_DAMPING = 0.4
"""The damping where no samples are held out."""
_SUMS_TRIED = 64
"""Sums of a group, evenly spread, by which the damping is chosen."""
_WEIGHTS_PER_SLICE = 2**21
"""Weights that are rounded at once."""
_STACKED_LIMIT = 2**18
"""Elements of a covariance up to which copies for all dampings, 10 MB, are in memory at once."""

SaturationGuard = Callable[[NDArray[Any]], NDArray[Any]]
"""Changes integers so that sums of two products do not saturate int16; or the identity."""


@dataclass(frozen=True, eq=False)
class ScaledWeights:
    """Weights of a node in LSB, with the bounds of their integers.

    Attributes:
        weights: Weight / scale, shape (groups, K, sums).
        lo: Lowest integer less the zero point, shape (groups, 1, sums).
        hi: Highest integer less the zero point, shape (groups, 1, sums).
        scale: Shape (groups, 1, sums).
    """

    weights: NDArray[np.float64]
    lo: NDArray[np.float64]
    hi: NDArray[np.float64]
    scale: NDArray[np.float64]

    def select(self, sums: slice, inputs: slice = slice(None)) -> ScaledWeights:
        """The weights of some sums and some of their inputs."""
        ends = self.lo[:, :, sums], self.hi[:, :, sums]
        return ScaledWeights(self.weights[:, inputs, sums], *ends, self.scale[:, :, sums])

    def sum_slices(self) -> Iterator[slice]:
        """Slices of sums with about `_WEIGHTS_PER_SLICE` weights each."""
        at_once = max(1, _WEIGHTS_PER_SLICE // self.weights[:, :, 0].size)
        yield from (slice(i, i + at_once) for i in range(0, self.weights.shape[2], at_once))

    def repeat_groups(self, count: int) -> ScaledWeights:
        """All groups, ``count`` times in a row."""
        arrays = (self.weights, self.lo, self.hi, self.scale)
        return ScaledWeights(*(np.tile(array, (count, 1, 1)) for array in arrays))


def scaled_weights(
    linear: LinearOp, params: QuantParams, target: NDArray[np.float64] | None = None
) -> ScaledWeights:
    """The node's weights, or the ``target`` weights instead, in LSB with the bounds of their integers."""
    weights = linear.weight_columns() if target is None else target
    shape = linear.groups, 1, linear.outputs_per_group
    scale, zero_point = (
        np.broadcast_to(values.astype(np.float64).reshape(-1), math.prod(shape)).reshape(shape)
        for values in (params.scale, params.zero_point)
    )
    lo, hi = params.qtype.lo - zero_point, params.qtype.hi - zero_point
    return ScaledWeights(weights / scale, lo, hi, scale)


def smallest_dtype(scaled: ScaledWeights) -> np.dtype[np.integer[Any]]:
    """The smallest integer type that holds all integers within the bounds."""
    ends = scaled.lo.min(), scaled.hi.max()
    return np.promote_types(*(np.min_scalar_type(int(end)) for end in ends))


def choose_damping(
    scaled: ScaledWeights,
    blocks: Sequence[CovarianceBlock],
    centred: bool,
    guard: SaturationGuard,
) -> tuple[float, float, float, float]:
    """The damping with the least error on held-out samples.

    Returns:
        The damping; energies of the sums, of the error of nearest integers, and of the error with that damping.
    """
    every = -(-scaled.weights.shape[2] // _SUMS_TRIED)
    has_held_out = all(block.training.count and block.held_out.count for block in blocks)
    dampings = DAMPINGS if has_held_out else (_DEFAULT_DAMPING,)
    energies = np.zeros(2 + len(dampings))
    for block in blocks:
        few = scaled.select(slice(None, None, every), block.inputs)
        training, held_out = (
            (block.training, block.held_out)
            if has_held_out
            else (block.all_samples, block.all_samples)
        )
        moments = [covariance.second_moment(centred=centred) for covariance in (training, held_out)]
        roundings = [np.zeros_like(few.weights), round_to_nearest(few)]
        roundings += _round_with_dampings(moments[0], dampings, few)
        for place, integers in enumerate(roundings):
            squares = output_error(moments[1], few.weights - guard(integers)) * np.square(
                few.scale[:, 0]
            )
            energies[place] += squares.sum()
    best = int(np.argmin(energies[2:]))
    signal, nearest, gptq = energies[[0, 1, 2 + best]].tolist()
    return dampings[best], signal, nearest, gptq


def _round_with_dampings(
    moment: NDArray[np.float64], dampings: Sequence[float], few: ScaledWeights
) -> list[NDArray[np.float64]]:
    """The integers with each damping; all at once where the covariance is small, to save calls."""
    if moment.size > _STACKED_LIMIT:
        return [gptq_or_nearest(DampedCholesky(moment, damping), few) for damping in dampings]
    each = np.repeat(dampings, len(moment))
    factor = DampedCholesky(np.tile(moment, (len(dampings), 1, 1)), each)
    return np.split(gptq_or_nearest(factor, few.repeat_groups(len(dampings))), len(dampings))


def gptq_or_nearest(factor: DampedCholesky, scaled: ScaledWeights) -> NDArray[np.float64]:
    """For each sum the second-order integers, or the nearest ones where these have no larger error."""
    gptq = factor.round(scaled.weights, scaled.lo, scaled.hi)
    nearest = factor.round_to_nearest(scaled.weights, scaled.lo, scaled.hi)
    better = (gptq.error < nearest.error)[:, None]
    return np.where(better, gptq.integers, nearest.integers)


def round_to_nearest(scaled: ScaledWeights) -> NDArray[np.float64]:
    """The nearest integers within the bounds, less the zero point."""
    return np.clip(np.rint(scaled.weights), scaled.lo, scaled.hi)
