"""Statistics → which nodes are quantized, which tensors share a scale, and which need a range."""

from __future__ import annotations

from collections.abc import Mapping

from ptq.core.errors import StatsError
from ptq.core.target import Target
from ptq.core.targets import TARGETS
from ptq.model.graph import Graph
from ptq.observers import TensorStats
from ptq.solver.partition.eligibility import (
    Eligibility,
    PrecisionAssignment,
    assign_precision,
)
from ptq.solver.partition.node_precision import assess_nodes
from ptq.solver.partition.padded_depthwise import find_padded_depthwise_below_zero
from ptq.solver.partition.positions import find_nodes_with_positions
from ptq.solver.partition.unquantizable import (
    find_float_divisions,
    find_small_divisors,
    find_unquantizable_tensors,
)
from ptq.solver.scales.concat_ranges import find_concats_with_unlike_ranges
from ptq.solver.scales.group_qparams import find_tensors_holding_values
from ptq.solver.scales.scale_groups import ScaleGroups, find_scale_groups


def list_tensors_to_observe(graph: Graph) -> list[str]:
    """The tensors whose ranges some target needs, in graph order.

    A target that quantizes inputs only needs no others, except what data movement brought: the values are known.
    """
    wanted: dict[str, None] = {}
    assessed = assess_nodes(graph, {})
    for target in TARGETS.values():
        if target.quantizes_inputs_only:
            continue
        groups = find_scale_groups(Eligibility(graph, target, assessed).assign({}), target)
        wanted.update(dict.fromkeys(groups.observed_tensors()))
    return list(wanted)


class PrecisionRules:
    """What graph, statistics and target decide on every node, whichever nodes are asked to stay float."""

    def __init__(self, graph: Graph, stats: Mapping[str, TensorStats], target: Target) -> None:
        """Look at every node.

        Args:
            graph: A prepared graph, shapes inferred.
            stats: Statistics of the calibration, by tensor.
            target: The target to quantize for.
        """
        self._graph, self._stats, self._target = graph, stats, target
        unlike = {} if target.has_lookup_tables else find_concats_with_unlike_ranges(graph, stats)
        slower = find_padded_depthwise_below_zero(graph, stats, target)
        self._skip = {
            **find_nodes_with_positions(graph),
            **find_float_divisions(graph, target),
            **find_small_divisors(graph, stats),
            **unlike,
            **slower,
        }
        self._refused = find_unquantizable_tensors(graph, stats)
        self._eligibility = Eligibility(graph, target, assess_nodes(graph, self._refused))

    def assign(self, floats: Mapping[str, str]) -> tuple[PrecisionAssignment, ScaleGroups]:
        """Decide which nodes are quantized, and which tensors share a scale.

        Nodes also stay float where the statistics or the scale groups allow no integers. A tensor without statistics
        makes its nodes float, which changes the groups; so both are computed again until every group has a range.

        Args:
            floats: Names of nodes, or operators, to keep float, with the reason.

        Raises:
            StatsError: The statistics lack a tensor that every calibration collects.
        """
        skip, refused = {**self._skip, **floats}, dict(self._refused)
        assignment = self._eligibility.assign(skip)
        groups = find_scale_groups(assignment, self._target)
        while unobserved := _find_unobserved_tensors(groups, self._stats):
            missing = unobserved.intersection(list_tensors_to_observe(self._graph))
            if missing:
                raise StatsError(
                    f"tensor {min(missing)} was not observed; calibrate again with this version"
                )
            refused.update((n, f"{n} was not observed before its activation") for n in unobserved)
            assignment = assign_precision(self._graph, self._target, skip, refused)
            groups = find_scale_groups(assignment, self._target)
        return assignment, groups


def assign_precision_and_groups(
    graph: Graph, stats: Mapping[str, TensorStats], target: Target, floats: Mapping[str, str]
) -> tuple[PrecisionAssignment, ScaleGroups]:
    """Decide which nodes are quantized, and which tensors share a scale; see `PrecisionRules`.

    Raises:
        StatsError: The statistics lack a tensor that every calibration collects.
    """
    return PrecisionRules(graph, stats, target).assign(floats)


def _find_unobserved_tensors(groups: ScaleGroups, stats: Mapping[str, TensorStats]) -> set[str]:
    """Tensors that set the range of their group, but whose values no statistics describe."""
    return {
        name
        for name in groups.observed_tensors()
        if find_tensors_holding_values(groups.values[name], stats) is None
    }
