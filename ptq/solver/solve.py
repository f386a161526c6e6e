"""Statistics and a recipe → a plan: precision, scale groups, ranges, fixed parameters, folded activations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ptq.core.opspec import Role
from ptq.core.plan import Clamp, Plan, Why
from ptq.core.plan_entries import name_operand
from ptq.core.target import Target
from ptq.core.types import QuantParams
from ptq.model.graph import Graph
from ptq.model.node import get_name, get_node_name, is_constant
from ptq.model.weights.shared_weights import find_weight_families
from ptq.observers import TensorStats, get_observer
from ptq.solver.assign import assign_precision_and_groups
from ptq.solver.partition.eligibility import PrecisionAssignment
from ptq.solver.partition.float_layers import get_layer_times
from ptq.solver.partition.node_precision import QuantizedNode
from ptq.solver.partition.shipped_tables import get_cost_table
from ptq.solver.recipe import AUTO, FALLBACK_METHOD, ChosenMethod, Recipe
from ptq.solver.scales.clamp_bounds import can_fold, find_clamp_bounds
from ptq.solver.scales.group_qparams import compute_group_qparams
from ptq.solver.scales.litert_nodes import find_nodes_beyond_litert
from ptq.solver.scales.near_ranges import share_near_ranges
from ptq.solver.scales.scale_groups import ScaleGroup, ScaleGroups
from ptq.solver.scales.shared_scales import compute_shared_weight_qparams
from ptq.solver.scales.table_qparams import INT8_TABLE_REASON, find_tables
from ptq.solver.scales.weight_qparams import compute_weight_and_bias_qparams
from ptq.solver.scales.wide_tensors import (
    find_requested_tensors,
    find_wide_tensors,
    get_wide_target,
    note_width,
    widen_qparams,
)
from ptq.solver.skipped_nodes import check_skipped_nodes


def solve(
    graph: Graph,
    stats: Mapping[str, TensorStats],
    target: Target,
    recipe: Recipe,
    digest: str | None = None,
) -> Plan:
    """Choose scale and zero point of every tensor that the target computes on as integers.

    Args:
        graph: A prepared graph, shapes inferred.
        stats: Statistics of the calibration, by tensor.
        target: The target to quantize for.
        recipe: The range methods, the nodes to keep float, and the form of weight scales.
        digest: The digest of the graph; None to compute it.

    Raises:
        StatsError: The statistics lack a tensor whose range is needed.
        UsageError: A node to keep float, or a range method, does not exist.
    """
    get_observer(recipe.default_method.method)
    check_skipped_nodes(graph, recipe.float_nodes)
    draft = _solve_draft(graph, stats, target, recipe)
    while refused := draft.list_uncomputable_nodes():
        recipe = recipe.with_float_nodes(refused)
        draft = _solve_draft(graph, stats, target, recipe)
    table = get_cost_table(target) or get_layer_times(target)
    return Plan(
        target=target.name,
        graph=graph.digest() if digest is None else digest,
        tensors=draft.tensors,
        operands=draft.operands,
        edges=draft.edges,
        folded=draft.folded,
        clamps=draft.clamps,
        floats=draft.floats,
        why=draft.why,
        costs=None if table is None else {"table": table.name, "digest": table.digest},
    )


def _solve_draft(
    graph: Graph, stats: Mapping[str, TensorStats], target: Target, recipe: Recipe
) -> _PlanDraft:
    """What `solve` chooses, whether or not the target can compute with these scales."""
    assignment, groups = assign_precision_and_groups(graph, stats, target, recipe.float_nodes)
    floats = dict(assignment.float_nodes)
    draft = _PlanDraft(stats, target, recipe, assignment, groups, floats=floats)
    wide = get_wide_target(target)
    widened = {} if wide is None else find_wide_tensors(graph, assignment, groups)
    asked = {} if wide is None else find_requested_tensors(assignment, groups, recipe.wide_nodes)
    for group in groups.to_groups():
        reason = next((asked[name] for name in group.tensors if name in asked), "")
        is_wide = bool(reason) or not widened.keys().isdisjoint(group.tensors)
        draft.solve_group(group, wide if is_wide and wide else target, reason)
    draft.share_near_ranges()
    draft.solve_requantized_inputs()
    if widened or asked:
        draft.solve_width_changes()
    nodes = assignment.quantized_nodes
    for quantized in nodes.values():
        draft.solve_operands(quantized)
        draft.solve_activation(quantized)
    draft.share_weight_scales(graph)
    # a recipe may repeat what an earlier plan left in float
    kept = {name for name, why in recipe.float_nodes.items() if why != INT8_TABLE_REASON}
    for name, params, why in find_tables(graph, nodes, kept, target, per_tensor=recipe.per_tensor):
        draft.set_operand(name, 0, params, why)
        draft.floats[name] = INT8_TABLE_REASON
    return draft


@dataclass
class _PlanDraft:
    """The plan while it is solved.

    Attributes:
        stats: Statistics of the calibration, by tensor.
        target: The target to quantize for.
        recipe: The request.
        assignment: Which nodes are quantized.
        groups: Which tensors share a scale.

    The other fields have the meaning that they have in `Plan`.
    """

    stats: Mapping[str, TensorStats]
    target: Target
    recipe: Recipe
    assignment: PrecisionAssignment
    groups: ScaleGroups
    tensors: dict[str, QuantParams] = field(default_factory=dict)
    operands: dict[tuple[str, int], QuantParams] = field(default_factory=dict)
    edges: dict[tuple[str, int], QuantParams] = field(default_factory=dict)
    folded: dict[str, str] = field(default_factory=dict)
    clamps: dict[str, Clamp] = field(default_factory=dict)
    floats: dict[str, str] = field(default_factory=dict)
    why: dict[str, Why] = field(default_factory=dict)

    def list_uncomputable_nodes(self) -> dict[str, str]:
        """Integer nodes that the target cannot compute with these scales, each with the reason."""
        if not self.target.writes_tflite:
            return {}
        nodes = self.assignment.quantized_nodes
        return find_nodes_beyond_litert(nodes, self.tensors, self.edges, self.folded)

    def set_operand(self, node: str, position: int, params: QuantParams, why: Why) -> None:
        """Set the parameters and the reason of a weight, a bias or a table."""
        self.operands[node, position] = params
        self.why[name_operand(node, position)] = why

    def set_edge(self, node: str, position: int, params: QuantParams, why: Why) -> None:
        """Requantize an input before a node."""
        self.edges[node, position] = params
        self.why[name_operand(node, position)] = why

    def solve_group(self, group: ScaleGroup, target: Target, width_reason: str) -> None:
        """Set the parameters and the reasons of the tensors of a group.

        Args:
            group: The group.
            target: The target, with the width of the group.
            width_reason: Why the group was asked for in 16 bits; empty if it was not.
        """
        params, reason = self._compute_group_qparams(group, target, asked=bool(width_reason))
        for name in group.tensors:
            via = group.shared_via.get(name)
            self.tensors[name] = params
            self.why[name] = reason if via is None else Why("same", via)
            if width_reason:
                self.why[name] = note_width(self.why[name], params.qtype, width_reason)

    def _compute_group_qparams(
        self, group: ScaleGroup, target: Target, *, asked: bool = False
    ) -> tuple[QuantParams, Why]:
        if group.fixed_qparams is not None:
            op, fixed = group.fixed_qparams
            params = QuantParams.per_tensor(fixed.scale, fixed.zero_point, self.target.activation)
            params = widen_qparams(params, target.activation)
            return params, Why("fixed", f"LiteRT's specification for {op}")
        methods = self.recipe.chosen_methods
        default = self.recipe.default_method
        chosen = next((methods[name] for name in group.tensors if name in methods), default)
        # a method that was chosen for 8 bits can cut off what 16 hold
        if asked and self.recipe.method == AUTO:
            chosen = ChosenMethod(FALLBACK_METHOD, FALLBACK_METHOD)
        observer = get_observer(chosen.method)
        params = compute_group_qparams(group, self.groups, self.stats, observer, target)
        values = self.groups.values
        if any(not is_constant(values[name]) for name in group.observed_tensors):
            return params, Why("observed", chosen.detail)
        return params, Why("constant", "minimum and maximum")

    def share_near_ranges(self) -> None:
        """Give tensors that a node joins one scale where their ranges are nearly the same."""
        near = share_near_ranges(self.assignment, self.groups, self.tensors, self.target)
        for name, (params, why) in near.items():
            self.tensors[name], self.why[name] = params, why or self.why[name]

    def solve_requantized_inputs(self) -> None:
        """Requantize inputs to the parameters of the output of the node that reads them."""
        for name, position in self.groups.requantized_inputs:
            output = get_name(self.assignment.quantized_nodes[name].node.outputs[0])
            why = Why("same", f"{output}, through {name}")
            self.set_edge(name, position, self.tensors[output], why)

    def solve_width_changes(self) -> None:
        """Requantize inputs that have another width than the output of the node that reads them."""
        group_of = {name: group for group in self.groups.to_groups() for name in group.tensors}
        for name, quantized in self.assignment.quantized_nodes.items():
            output = self.tensors.get(get_name(quantized.node.outputs[0]))
            for operand in quantized.operands if output is not None else ():
                source = get_name(operand.value)
                before = self.tensors.get(source)
                if operand.role is not Role.ACTIVATION or before is None or output is None:
                    continue
                if before.qtype.bits == output.qtype.bits or (name, operand.position) in self.edges:
                    continue
                if before.qtype.bits < output.qtype.bits:
                    params = widen_qparams(before, output.qtype)
                else:
                    params, _ = self._compute_group_qparams(group_of[source], self.target)
                why = Why("derived", f"{source}, in {output.qtype.bits} bits as {name} computes")
                self.set_edge(name, operand.position, params, why)

    def solve_operands(self, quantized: QuantizedNode) -> None:
        """Set the parameters and the reasons of a node's weight and bias."""
        solved = compute_weight_and_bias_qparams(
            quantized,
            quantized.list_activation_qparams(self.tensors, self.edges),
            self.target,
            per_tensor=self.recipe.per_tensor,
            reduced=self.recipe.weights == "reduced",
        )
        for position, (params, why) in solved.items():
            self.set_operand(get_node_name(quantized.node), position, params, why)

    def share_weight_scales(self, graph: Graph) -> None:
        """Give all nodes that share a weight one set of scales for it."""
        nodes = self.assignment.quantized_nodes
        found = compute_shared_weight_qparams(
            find_weight_families(graph), nodes, self.operands, self.tensors
        )
        for name, position, (params, why) in list(found):
            self.set_operand(name, position, params, why)

    def solve_activation(self, quantized: QuantizedNode) -> None:
        """Fold a fused activation into its producer, or clamp on integers.

        It folds where the bounds contain 0 and the range of the output's integers lies within the bounds.
        """
        name = get_node_name(quantized.node)
        producer = self.assignment.fused_activations.get(name)
        if producer is None:
            return
        params = self.tensors[get_name(quantized.node.outputs[0])]
        if can_fold(quantized, params):
            self.folded[name] = producer
            before = get_name(quantized.inputs_with_role(Role.ACTIVATION)[0])
            del self.tensors[before], self.why[before]
        else:
            qlo, qhi = (int(params.quantize(bound)) for bound in find_clamp_bounds(quantized))
            self.clamps[name] = Clamp(producer, qlo, qhi)
