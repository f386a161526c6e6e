"""Second-order rounding (GPTQ) of a graph's weights, by the covariance of each layer's inputs.

With many inputs and few samples a covariance describes these samples and no others. So the damping, and whether
second-order rounding is used at all, is chosen on held-out samples; without any, the damping is fixed. The weights
are then rounded with the covariance of all samples. Where biases are corrected the mean of a sum's error vanishes,
and only its variance counts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.decibels import to_sqnr_db
from ptq.core.memory import release_memory
from ptq.core.plan import Plan
from ptq.core.types import QuantParams
from ptq.kernels.thread_pool import map_in_parallel
from ptq.model.graph import Graph
from ptq.model.node import Node, get_name, get_node_name
from ptq.model.weights.shared_weights import find_weight_families
from ptq.observers.input_statistics import (
    CovarianceBlock,
    InputStatistics,
    PooledBlock,
    pool_blocks,
)
from ptq.rewrite.emit.bias_correction import is_correctable
from ptq.rewrite.emit.rounded_weight import RoundedWeight
from ptq.solver.rounding.damping import (
    FIXED_DAMPING,
    SaturationGuard,
    ScaledWeights,
    choose_damping,
    find_smallest_dtype,
    has_held_out,
    round_to_nearest,
    round_weights,
    scale_weights,
)
from ptq.solver.rounding.weighted_sums import LinearOp

_MAX_SNR = 1e10
"""The largest signal-to-error ratio of energies: a smaller error comes from float64, or from constant inputs."""
_FEW_SUMS = 16
"""Sums of a layer that are checked for saturation before all others."""
_Key = tuple[tuple[str, ...], QuantParams, bool]
"""The nodes that share a weight, its parameters, and whether the means of their errors vanish."""


@dataclass(frozen=True, eq=False)
class WeightRounding:
    """The rounding that was chosen for a weight.

    Attributes:
        rounded: The weight by its integers; None if each weight is rounded to the nearest.
        damping: The share of the mean variance that is added to the variance of every input.
        nearest_db: SQNR of the node's sums in dB with each weight rounded to the nearest, on held-out samples.
        gptq_db: SQNR of the node's sums in dB with second-order rounding, on held-out samples.
        on_held_out: Whether there are held-out samples; else both figures are of the samples that it was fitted on.
    """

    rounded: RoundedWeight | None
    damping: float
    nearest_db: float
    gptq_db: float
    on_held_out: bool

    @property
    def weight(self) -> NDArray[np.float32] | None:
        """The rounded weight in float32; None if each weight is rounded to the nearest."""
        return None if self.rounded is None else self.rounded.numpy()

    @property
    def gain_db(self) -> float:
        """Gain in SQNR over rounding to the nearest, in dB; 0 or more."""
        return max(self.gptq_db - self.nearest_db, 0.0) if self.rounded is not None else 0.0

    def __str__(self) -> str:
        """The choice and its reason, as a plan records it."""
        figures = f"{self.nearest_db:.1f} → {self.gptq_db:.1f} dB"
        if self.rounded is None or self.gptq_db <= self.nearest_db:
            return f"nearest, as second order loses: signal over error of its sums {figures}"
        return f"second-order, signal over error of its sums {figures}, damping {self.damping:g}"


class GptqRounder:
    """The second-order roundings of a graph's weights; each is computed when it is first needed."""

    def __init__(self, statistics: InputStatistics, validated_inputs: float = math.inf) -> None:
        """Take the covariances of `ptq.calibration.input_covariance`.

        Args:
            statistics: The covariances, by node.
            validated_inputs: The most inputs of a sum whose damping is chosen on held-out samples.
        """
        self._validated_inputs = validated_inputs
        self._blocks = statistics.blocks
        self._mean_shifts = statistics.mean_shifts
        self._target_weights = statistics.target_weights
        self._roundings: dict[_Key, WeightRounding] = {}

    @property
    def node_names(self) -> Collection[str]:
        """The nodes whose input covariance is available."""
        return self._blocks.keys()

    def updated_with(self, statistics: InputStatistics) -> GptqRounder:
        """The same rounder with new statistics of some nodes."""
        after = GptqRounder(
            InputStatistics(
                {**self._blocks, **statistics.blocks},
                {**self._mean_shifts, **statistics.mean_shifts},
                {**self._target_weights, **statistics.target_weights},
            ),
            self._validated_inputs,
        )
        after._roundings.update(
            (key, choice)
            for key, choice in self._roundings.items()
            if not statistics.blocks.keys() & set(key[0])
        )
        return after

    def release(self) -> None:
        """Free the memory; from then on no rounding is chosen."""
        self._blocks, self._mean_shifts, self._target_weights = {}, {}, {}
        self._roundings = {}
        release_memory()

    def mean_shift(self, graph: Graph, plan: Plan) -> dict[str, NDArray[np.float64]]:
        """By node, what rounding adds to the mean of each channel of the node's input, where that was measured."""
        shifts = self._mean_shifts
        read = {get_node_name(node): node.inputs[0] for node in graph.nodes if node.name in shifts}
        return {
            name: shifts[name].mean
            for name, value in read.items()
            if value is not None and plan.tensors.get(get_name(value)) == shifts[name].params
        }

    def choose_roundings(
        self, graph: Graph, plan: Plan, *, corrected: bool
    ) -> dict[str, WeightRounding]:
        """Choose the rounding of each weight that the plan quantizes, by node.

        A plan with ``rounding`` names the nodes; all other weights are rounded to the nearest.

        Args:
            graph: The prepared graph.
            plan: The plan of the graph.
            corrected: Whether biases are corrected.
        """
        nodes = {get_node_name(node): node for node in graph.nodes}
        wanted = list(self._keys(graph, plan, nodes, corrected))
        missing = [key for key in wanted if key not in self._roundings]
        found = map_in_parallel(lambda key: self._choose_rounding(nodes, *key), missing)
        self._roundings.update(zip(missing, found, strict=True))
        by_node = {name: self._roundings[key] for key in wanted for name in key[0]}
        return {name: by_node[name] for name in nodes if name in by_node}

    def _keys(
        self, graph: Graph, plan: Plan, nodes: Mapping[str, Node], corrected: bool
    ) -> Iterator[_Key]:
        """The roundings that a plan needs: one for all nodes that share a weight and its parameters."""
        families = find_weight_families(graph)
        groups: dict[tuple[tuple[str, ...], QuantParams], list[str]] = {}
        for name in nodes:
            params = plan.find_weight_qparams(name)
            if params is not None and (plan.rounding is None or name in plan.rounding):
                groups.setdefault((families.get(name, (name,)), params), []).append(name)
        for (_, params), names in groups.items():
            known = [name for name in names if name in self._blocks]
            if known:
                centred = corrected and all(is_correctable(nodes[name]) for name in known)
                yield tuple(names), params, centred

    def _choose_rounding(
        self, nodes: Mapping[str, Node], names: tuple[str, ...], params: QuantParams, centred: bool
    ) -> WeightRounding:
        """Choose on held-out samples, if there are any; then round with all samples.

        Weights that `compensate_rounding` replaced are never left to the nearest integers of the original ones.

        Args:
            nodes: The nodes of the graph by name.
            names: The nodes that share the weight. The covariance is that over all their inputs.
            params: Parameters of the weight.
            centred: Whether only the variances of errors count.
        """
        known = [name for name in names if name in self._blocks]
        name = known[0]
        linear = LinearOp(nodes[name])
        blocks = self._pooled_blocks(known)
        target = self._target_weights.get(name)
        scaled = scale_weights(linear, params, target)
        plain = scaled if target is None else scale_weights(linear, params)
        guard = _make_saturation_guard(linear, plain)
        del plain
        validated = has_held_out(blocks) and linear.length <= self._validated_inputs
        if validated:
            damping, energies = choose_damping(scaled, blocks, centred, guard)
        else:
            damping = FIXED_DAMPING
            integers, energies = round_weights(scaled, blocks, centred, damping, guard)
        signal, nearest, gptq = energies.tolist()
        figures = damping, _limit_sqnr_db(signal, nearest), _limit_sqnr_db(signal, gptq), validated
        loses = gptq >= nearest
        if loses and target is None:
            return WeightRounding(None, *figures)
        if loses:
            integers = np.empty(scaled.weights.shape, find_smallest_dtype(scaled))
        elif validated:
            integers, _ = round_weights(scaled, blocks, centred, damping)
        for sums in scaled.sum_slices():
            found = round_to_nearest(scaled.select(sums)) if loses else integers[:, :, sums]
            integers[:, :, sums] = guard(found)
        return WeightRounding(_to_weight(linear, integers, params), *figures)

    def _pooled_blocks(self, names: Sequence[str]) -> Sequence[CovarianceBlock | PooledBlock]:
        """The covariance blocks over the inputs of all these nodes."""
        if len(names) == 1:
            return self._blocks[names[0]]
        shifts = self._mean_shifts
        return pool_blocks([(self._blocks[n], float(shifts[n].params.scale)) for n in names])


def _to_weight(
    linear: LinearOp, integers: NDArray[np.integer[Any]], params: QuantParams
) -> RoundedWeight:
    """The weight of integers without zero point, shape (groups, K, sums)."""
    if params.zero_point.any():
        shape = linear.groups, 1, linear.outputs_per_group
        zero_point = np.broadcast_to(params.zero_point.reshape(-1), math.prod(shape))
        integers = integers + zero_point.reshape(shape)
    whole = linear.from_columns(integers.astype(params.qtype.dtype, copy=False))
    return RoundedWeight(np.ascontiguousarray(whole), params)


def _make_saturation_guard(linear: LinearOp, plain: ScaledWeights) -> SaturationGuard:
    """A function that keeps int16 sums of two products from saturating, in orders in which nearest integers do not.

    Args:
        linear: The layer.
        plain: Its weights.
    """
    guards = [
        guard
        for guard in (linear.avoid_saturation, linear.avoid_channel_saturation)
        if all(np.array_equal(guard(some), some) for some in _list_nearest_integers(plain))
    ]

    def avoid_saturation(integers: NDArray[Any]) -> NDArray[Any]:
        for guard in guards:
            integers = guard(integers)
        return integers

    return avoid_saturation


def _list_nearest_integers(plain: ScaledWeights) -> Iterator[NDArray[Any]]:
    """The nearest integers of the weights, in parts; most saturate in the first sums."""
    parts = itertools.chain([slice(_FEW_SUMS)], plain.sum_slices())
    return (round_to_nearest(plain.select(sums)) for sums in parts)


def _limit_sqnr_db(signal: float, error: float) -> float:
    """SQNR in dB of two energies, at most that of `_MAX_SNR`."""
    return (
        to_sqnr_db(signal, max(error, signal / _MAX_SNR))
        if signal > 0
        else to_sqnr_db(_MAX_SNR, 1.0)
    )
