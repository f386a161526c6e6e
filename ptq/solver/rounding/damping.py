"""The damping of a node's covariance, chosen by the error on held-out samples, and rounding with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import QuantParams
from ptq.observers.input_statistics import CovarianceBlock, PooledBlock
from ptq.solver.rounding.gptq_rounding import (
    DampedCholesky,
    Matrix,
    Single,
    SortedCovariance,
    compute_output_error,
)
from ptq.solver.rounding.weighted_sums import LinearOp

DAMPINGS = (0.03, 0.3)
"""Dampings to try, as shares of the mean variance. Four from 0.02 to 1.5 gain 0.03 dB and take twice the time."""
FIXED_DAMPING = 0.3
"""The damping where no samples are held out."""
_SUMS_TRIED = 32
"""Sums of a group, evenly spread, by which the damping is chosen."""
_WEIGHTS_PER_SLICE = 2**21
"""Weights that are rounded at once."""
Energies = NDArray[np.float64]
SaturationGuard = Callable[[NDArray[Any]], NDArray[Any]]
"""Changes integers so that sums of two products do not saturate int16; or the identity."""


@dataclass(frozen=True, eq=False)
class ScaledWeights:
    """Weights of a node in LSB, in float32, with the bounds of their integers.

    Attributes:
        weights: Weight / scale, shape (groups, K, sums).
        lo: Lowest integer less the zero point, shape (groups, 1, sums).
        hi: Highest integer less the zero point, shape (groups, 1, sums).
        scale: Shape (groups, 1, sums).
    """

    weights: Single
    lo: Single
    hi: Single
    scale: Single

    def select(self, sums: slice, inputs: slice = slice(None)) -> ScaledWeights:
        """The weights of some sums and some of their inputs."""
        ends = self.lo[:, :, sums], self.hi[:, :, sums]
        return ScaledWeights(self.weights[:, inputs, sums], *ends, self.scale[:, :, sums])

    def spread(self) -> slice:
        """A few sums, evenly spread, by which a rounding is measured."""
        return slice(None, None, -(-self.weights.shape[2] // _SUMS_TRIED))

    def sum_slices(self) -> Iterator[slice]:
        """Slices of sums with about `_WEIGHTS_PER_SLICE` weights each."""
        at_once = max(1, _WEIGHTS_PER_SLICE // self.weights[:, :, 0].size)
        yield from (slice(i, i + at_once) for i in range(0, self.weights.shape[2], at_once))

    def repeat_groups(self, count: int) -> ScaledWeights:
        """All groups, ``count`` times in a row."""
        arrays = (self.weights, self.lo, self.hi, self.scale)
        return ScaledWeights(*(np.tile(array, (count, 1, 1)) for array in arrays))


def scale_weights(
    linear: LinearOp, params: QuantParams, target: NDArray[np.float32] | None = None
) -> ScaledWeights:
    """The node's weights, or the ``target`` weights instead, in LSB with the bounds of their integers."""
    weights = linear.weight_columns() if target is None else target
    shape = linear.groups, 1, linear.outputs_per_group
    scale, zero_point = (
        np.broadcast_to(values.astype(np.float32).reshape(-1), math.prod(shape)).reshape(shape)
        for values in (params.scale, params.zero_point)
    )
    lo, hi = params.qtype.lo - zero_point, params.qtype.hi - zero_point
    return ScaledWeights(np.divide(weights, scale, dtype=np.float32), lo, hi, scale)


def find_smallest_dtype(scaled: ScaledWeights) -> np.dtype[np.integer[Any]]:
    """The smallest integer type that holds all integers within the bounds."""
    ends = scaled.lo.min(), scaled.hi.max()
    return np.promote_types(*(np.min_scalar_type(int(end)) for end in ends))


def has_held_out(blocks: Sequence[CovarianceBlock | PooledBlock]) -> bool:
    """Whether held-out samples validate the rounding; fewer than 4 samples have none."""
    return all(block.training.count and block.held_out.count for block in blocks)


def choose_damping(
    scaled: ScaledWeights,
    blocks: Sequence[CovarianceBlock | PooledBlock],
    centred: bool,
    guard: SaturationGuard,
) -> tuple[float, Energies]:
    """The damping with the least error on held-out samples.

    Returns:
        The damping; energies of the sums, of the error of nearest integers, and of the error with that damping.
    """
    energies = np.zeros(2 + len(DAMPINGS))
    for block in blocks:
        few = scaled.select(scaled.spread(), block.inputs)
        moment = block.training.second_moment(centred=centred)
        factors = DampedCholesky(SortedCovariance(moment), DAMPINGS)
        found = choose_gptq_or_nearest(factors, few.repeat_groups(len(DAMPINGS)))
        moment = block.held_out.second_moment(centred=centred)
        energies += measure_energies(few, np.split(found, len(DAMPINGS)), moment, guard)
    best = int(np.argmin(energies[2:]))
    return DAMPINGS[best], energies[[0, 1, 2 + best]]


def measure_energies(
    scaled: ScaledWeights, roundings: Sequence[NDArray[Any]], moment: Matrix, guard: SaturationGuard
) -> Energies:
    """The energies of the sums, of the error of nearest integers, and of that of each rounding.

    Args:
        scaled: The weights.
        roundings: Integers of the same shape.
        moment: Second moments of the inputs, shape (groups, K, K).
        guard: What changes the integers in the end.
    """
    compared = [np.zeros_like(scaled.weights), round_to_nearest(scaled), *roundings]
    errors = np.concatenate([scaled.weights - guard(some) for some in compared], axis=2)
    squares = compute_output_error(moment, errors)
    by_rounding = squares.reshape(len(squares), len(compared), -1) * np.square(scaled.scale)
    energies: Energies = by_rounding.sum(axis=(0, 2))
    return energies


def round_weights(
    scaled: ScaledWeights,
    blocks: Sequence[CovarianceBlock | PooledBlock],
    centred: bool,
    damping: float,
    guard: SaturationGuard | None = None,
) -> tuple[NDArray[np.integer[Any]], Energies]:
    """The integers by the covariance of all samples; with a guard also the energies on these samples.

    Returns:
        Integers of the shape of the weights; energies of the sums, of the error of nearest integers, and of theirs.
    """
    integers, energies = np.empty(scaled.weights.shape, find_smallest_dtype(scaled)), np.zeros(3)
    for block in blocks:
        moment = block.all_samples.second_moment(centred=centred)
        factor = DampedCholesky(SortedCovariance(moment), [damping])
        for sums in scaled.sum_slices():
            some = scaled.select(sums, block.inputs)
            integers[:, block.inputs, sums] = choose_gptq_or_nearest(factor, some)
        if guard is not None:
            few = scaled.select(scaled.spread(), block.inputs)
            found = integers[:, block.inputs, scaled.spread()]
            energies += measure_energies(few, [found], moment, guard)
    return integers, energies


def choose_gptq_or_nearest(factor: DampedCholesky, scaled: ScaledWeights) -> Single:
    """For each sum the second-order integers, or the nearest ones where these have no larger error."""
    gptq = factor.round(scaled.weights, scaled.lo, scaled.hi)
    nearest = round_to_nearest(scaled)
    better = factor.has_more_error(scaled.weights - nearest, gptq.error)
    return np.where(better[:, None], gptq.integers, nearest)


def round_to_nearest(scaled: ScaledWeights) -> Single:
    """The nearest integers within the bounds, less the zero point."""
    return np.clip(np.rint(scaled.weights), scaled.lo, scaled.hi)
