"""Which rounding of a node's weights suits how its inputs vary together (`rounding`), and what does it win?

Where inputs are many and samples few, a covariance says much of these samples that holds of no others. So how far it
is trusted, its damping, and whether at all, is judged on samples that it was not learnt from; the weights are then
rounded by all samples. Where biases are corrected the mean of a sum's error vanishes, and only its variance counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.memory import release_memory
from ptq.core.plan import Plan
from ptq.core.types import QuantParams
from ptq.kernels.thread_pool import thread_count as cores
from ptq.model.graph import Graph
from ptq.model.node import Node, name_of
from ptq.observers.input_statistics import CovarianceBlock, InputStatistics
from ptq.rewrite.emit.bias_correction import is_correctable
from ptq.solver.rounding.gptq_rounding import DampedCholesky, output_error
from ptq.solver.rounding.weighted_sums import LinearOp

DAMPINGS = (0.02, 0.1, 0.4, 1.5)
"""What is tried: shares of the mean variance."""
_DEFAULT_DAMPING = 0.4
"""The damping where there is one sample alone."""
_SUMS_TRIED = 64
"""Sums of a group that the damping is chosen by, evenly spread."""
_MAX_SNR = 1e10
"""Signal over error from which on the error, of float64 or of no inputs that vary, counts as none."""
_WEIGHTS_PER_SLICE = 2**21  # weights
_STACKED_LIMIT = 2**18
"""Products in a covariance, of which copies for all dampings, 10 MB, may be in memory."""

_Key = tuple[str, QuantParams, bool]
_SaturationGuard = Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True, eq=False)
class _IntegerWeights:
    """A node's weight in multiples of its scale, in as few bytes as these take."""

    linear_op: LinearOp
    integers: NDArray[np.integer[Any]]
    scale: NDArray[np.float64]

    def weight(self) -> NDArray[np.float32]:
        return self.linear_op.from_columns((self.integers * self.scale).astype(np.float32))


@dataclass(frozen=True, eq=False)
class WeightRounding:
    """A weight's rounding.

    Attributes:
        rounded: The integers chosen; None where each weight is rounded to the nearest.
        damping: The share of the mean variance by which every input is taken to vary apart.
        nearest_db: Signal over error of the node's sums with each weight rounded to the nearest, in decibels.
        second_db: The same with weights rounded by second order, on samples that were not learnt from.
    """

    integer_weights: _IntegerWeights | None
    damping: float
    nearest_db: float
    gptq_db: float

    @property
    def weight(self) -> NDArray[np.float32] | None:
        """float32, multiples of the scale; None where each weight is rounded to the nearest."""
        return None if self.integer_weights is None else self.integer_weights.weight()

    @property
    def gain_db(self) -> float:
        """Decibels won."""
        return max(self.gptq_db - self.nearest_db, 0.0) if self.integer_weights is not None else 0.0

    def __str__(self) -> str:
        """What was chosen and why, in words."""
        figures = f"{self.nearest_db:.1f} → {self.gptq_db:.1f} dB"
        if self.integer_weights is None or self.gptq_db <= self.nearest_db:
            return f"nearest, as second order loses: signal over error of its sums {figures}"
        return f"second-order, signal over error of its sums {figures}, damping {self.damping:g}"


@dataclass(frozen=True, eq=False)
class _ScaledWeights:
    """Some sums of a node, in steps of their scales: weights (groups, K, sums), the others (groups, 1, sums)."""

    weights: NDArray[np.float64]
    lo: NDArray[np.float64]
    hi: NDArray[np.float64]
    scale: NDArray[np.float64]

    def select(self, sums: slice, inputs: slice = slice(None)) -> _ScaledWeights:
        """Of these only so many."""
        ends = self.lo[:, :, sums], self.hi[:, :, sums]
        return _ScaledWeights(self.weights[:, inputs, sums], *ends, self.scale[:, :, sums])

    def sum_slices(self) -> Iterator[slice]:
        """Sums by the few, all of whose weights are not too many at once."""
        at_once = max(1, _WEIGHTS_PER_SLICE // self.weights[:, :, 0].size)
        yield from (slice(i, i + at_once) for i in range(0, self.weights.shape[2], at_once))

    def repeat_groups(self, count: int) -> _ScaledWeights:
        """All groups so many times."""
        all_of_it = (self.weights, self.lo, self.hi, self.scale)
        return _ScaledWeights(*(np.tile(array, (count, 1, 1)) for array in all_of_it))


class GptqRounder:
    """The roundings of a graph's weights; each is computed when first asked for."""

    def __init__(self, seen: InputStatistics) -> None:
        """What `ptq.calibration.input_covariance` has seen."""
        self._parts, self._added, self._wanted = seen.blocks, seen.mean_shifts, seen.target_weights
        self._known: dict[_Key, WeightRounding] = {}

    @property
    def node_names(self) -> Collection[str]:
        """Those of which it is known how their inputs vary."""
        return self._parts.keys()

    def updated_with(self, seen: InputStatistics) -> GptqRounder:
        """The same but for some nodes, of which better is known."""
        after = GptqRounder(
            InputStatistics(
                {**self._parts, **seen.blocks},
                {**self._added, **seen.mean_shifts},
                {**self._wanted, **seen.target_weights},
            )
        )
        known = self._known.items()
        after._known.update((key, choice) for key, choice in known if key[0] not in seen.blocks)
        return after

    def release(self) -> None:
        """Give the memory back; no further rounding is chosen."""
        self._parts, self._added, self._wanted = {}, {}, {}
        self._known = {}
        release_memory()

    def mean_shift(self, graph: Graph, plan: Plan) -> dict[str, NDArray[np.float64]]:
        """What rounding adds to the mean of each channel of what nodes read, by node, where that is known."""
        read = {node.name or "": node.inputs[0] for node in graph.nodes if node.name in self._added}
        return {
            name: self._added[name].mean
            for name, value in read.items()
            if value is not None and plan.tensors.get(name_of(value)) == self._added[name].params
        }

    def choose_roundings(
        self, graph: Graph, plan: Plan, *, corrected: bool
    ) -> dict[str, WeightRounding]:
        """How to round the weights that the plan quantizes and does not want rounded to the nearest, by node.

        Args:
            graph: The prepared graph.
            plan: Its plan.
            corrected: Whether biases are corrected.
        """
        asked: dict[str, tuple[Node, _Key]] = {}
        for node in graph.nodes:
            name = node.name or ""
            params = plan.operands.get((name, 1))
            wanted = plan.rounding is None or name in plan.rounding
            if params is not None and wanted and name in self._parts:
                asked[name] = node, (name, params, corrected and is_correctable(node))
        missing = [(node, key) for node, key in asked.values() if key not in self._known]
        with ThreadPoolExecutor(cores()) as pool:
            found = list(pool.map(lambda item: self._choose_rounding(item[0], *item[1]), missing))
        self._known.update((key, choice) for (_, key), choice in zip(missing, found, strict=True))
        return {name: self._known[key] for name, (_, key) in asked.items()}

    def _choose_rounding(
        self, node: Node, name: str, params: QuantParams, centred: bool
    ) -> WeightRounding:
        sums, parts = LinearOp(node), self._parts[name]
        steps = _scaled_weights(sums, params, self._wanted.get(name))
        kept = _saturation_guard(sums, params)
        damping, signal, before, after = _choose_damping(steps, parts, centred, kept)
        figures = damping, _sqnr_db(signal, before), _sqnr_db(signal, after)
        if after >= before and name not in self._wanted:
            return WeightRounding(None, *figures)
        integers = np.empty(steps.weights.shape, _smallest_dtype(steps))
        for part in parts if after < before else ():
            factor = DampedCholesky(part.all_samples.second_moment(centred=centred), damping)
            for some in steps.sum_slices():
                integers[:, part.inputs, some] = _gptq_or_nearest(
                    factor, steps.select(some, part.inputs)
                )
        for some in steps.sum_slices():
            found = (
                integers[:, :, some] if after < before else _round_to_nearest(steps.select(some))
            )
            integers[:, :, some] = kept(found)
        return WeightRounding(_IntegerWeights(sums, integers, steps.scale), *figures)


def _saturation_guard(sums: LinearOp, params: QuantParams) -> _SaturationGuard:
    """What keeps int16 sums of two products from saturating, where to the nearest they do not; else nothing."""
    steps = _scaled_weights(sums, params)
    nearest = (_round_to_nearest(steps.select(some)) for some in steps.sum_slices())
    within = all(np.array_equal(sums.avoid_saturation(some), some) for some in nearest)
    return sums.avoid_saturation if within else lambda integers: integers


def _choose_damping(
    steps: _ScaledWeights, parts: Sequence[CovarianceBlock], centred: bool, kept: _SaturationGuard
) -> tuple[float, float, float, float]:
    """The damping that leaves the least error, with the energy of the sums, the nearest's error and that least."""
    every = -(-steps.weights.shape[2] // _SUMS_TRIED)
    apart = all(part.training.count and part.held_out.count for part in parts)
    dampings = DAMPINGS if apart else (_DEFAULT_DAMPING,)
    energies = np.zeros(2 + len(dampings))
    for part in parts:
        few = steps.select(slice(None, None, every), part.inputs)
        learnt, held = (
            (part.training, part.held_out) if apart else (part.all_samples, part.all_samples)
        )
        moments = [covariance.second_moment(centred=centred) for covariance in (learnt, held)]
        roundings = [np.zeros_like(few.weights), _round_to_nearest(few)]
        roundings += _round_with_dampings(moments[0], dampings, few)
        for place, integers in enumerate(roundings):
            squares = output_error(moments[1], few.weights - kept(integers)) * np.square(
                few.scale[:, 0]
            )
            energies[place] += squares.sum()
    best = int(np.argmin(energies[2:]))
    signal, before, after = energies[[0, 1, 2 + best]].tolist()
    return dampings[best], signal, before, after


def _round_with_dampings(
    moment: NDArray[np.float64], dampings: Sequence[float], few: _ScaledWeights
) -> list[NDArray[np.float64]]:
    """The integers by each damping: by all at once where calls would take longer than what they compute."""
    if moment.size > _STACKED_LIMIT:
        return [_gptq_or_nearest(DampedCholesky(moment, damping), few) for damping in dampings]
    each = np.repeat(dampings, len(moment))
    factor = DampedCholesky(np.tile(moment, (len(dampings), 1, 1)), each)
    return np.split(_gptq_or_nearest(factor, few.repeat_groups(len(dampings))), len(dampings))


def _gptq_or_nearest(factor: DampedCholesky, steps: _ScaledWeights) -> NDArray[np.float64]:
    """Integers by second order, of a sum for which these are no better the nearest."""
    chosen = factor.round(steps.weights, steps.lo, steps.hi)
    plain = factor.round_to_nearest(steps.weights, steps.lo, steps.hi)
    better = (chosen.error < plain.error)[:, None]
    return np.where(better, chosen.integers, plain.integers)


def _round_to_nearest(steps: _ScaledWeights) -> NDArray[np.float64]:
    return np.clip(np.rint(steps.weights), steps.lo, steps.hi)


def _scaled_weights(
    sums: LinearOp, params: QuantParams, wanted: NDArray[np.float64] | None = None
) -> _ScaledWeights:
    """The node's weights, or those wanted, in steps with their bounds; scales are one for all or one a channel."""
    weights = sums.weight_columns() if wanted is None else wanted
    shape = sums.groups, 1, sums.outputs_per_group
    scale, zero_point = (
        np.broadcast_to(values.astype(np.float64).reshape(-1), math.prod(shape)).reshape(shape)
        for values in (params.scale, params.zero_point)
    )
    lo, hi = params.qtype.lo - zero_point, params.qtype.hi - zero_point
    return _ScaledWeights(weights / scale, lo, hi, scale)


def _smallest_dtype(steps: _ScaledWeights) -> np.dtype[np.integer[Any]]:
    """What holds all integers that the steps may become."""
    return np.promote_types(*(np.min_scalar_type(int(e)) for e in (steps.lo.min(), steps.hi.max())))


def _sqnr_db(signal: float, error: float) -> float:
    least = signal / _MAX_SNR
    return 10 * math.log10(signal / max(error, least)) if signal > 0 else 10 * math.log10(_MAX_SNR)
