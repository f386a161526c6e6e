"""Statistics and a recipe → a plan: precision, scale groups, ranges, fixed parameters, folded activations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ptq.core.opspec import Role
from ptq.core.plan import Clamp, Plan, Why
from ptq.core.plan_entries import operand_key
from ptq.core.target import Target
from ptq.core.types import QuantParams
from ptq.model.graph import Graph
from ptq.model.node import is_constant, name_of
from ptq.model.weights.shared_weights import weight_families
from ptq.observers import TensorStats, get_observer
from ptq.solver.assign import assign_precision_and_groups
from ptq.solver.partition.eligibility import PrecisionAssignment
from ptq.solver.partition.float_layers import get_layer_times
from ptq.solver.partition.node_precision import QuantizedNode
from ptq.solver.partition.shipped_tables import get_cost_table
from ptq.solver.recipe import AUTO, FALLBACK_METHOD, ChosenMethod, Recipe
from ptq.solver.scales.clamp_bounds import can_fold, clamp_bounds
from ptq.solver.scales.group_qparams import group_qparams
from ptq.solver.scales.litert_nodes import nodes_beyond_litert
from ptq.solver.scales.near_ranges import share_near_ranges
from ptq.solver.scales.scale_groups import ScaleGroup, ScaleGroups
from ptq.solver.scales.shared_scales import shared_weight_qparams
from ptq.solver.scales.table_qparams import INT8_TABLE_REASON, find_tables
from ptq.solver.scales.weight_qparams import weight_and_bias_qparams
from ptq.solver.scales.wide_tensors import (
    note_width,
    requested_tensors,
    wide_target,
    wide_tensors,
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
) -> _Draft:
    """What `solve` chooses, whether or not the target can compute with these scales."""
    assignment, groups = assign_precision_and_groups(graph, stats, target, recipe.float_nodes)
    draft = _Draft(target, assignment, recipe, floats=dict(assignment.float_nodes))
    wide = wide_target(target)
    widened = {} if wide is None else wide_tensors(graph, assignment, groups)
    asked = {} if wide is None else requested_tensors(assignment, groups, recipe.wide_nodes)
    for group in groups.to_groups():
        reason = next((asked[name] for name in group.tensors if name in asked), "")
        is_wide = bool(reason) or not widened.keys().isdisjoint(group.tensors)
        _solve_group(draft, group, groups, stats, wide if is_wide and wide else target, reason)
    near = share_near_ranges(assignment, groups, draft.tensors, target)
    for name, (params, why) in near.items():
        draft.tensors[name], draft.why[name] = params, why or draft.why[name]
    widened = {**widened, **asked}
    _solve_requantized_inputs(draft, groups.requantized_inputs)
    if widened:
        _solve_width_changes(draft, groups, stats)
    nodes = assignment.quantized_nodes
    for quantized in nodes.values():
        _solve_operands(draft, quantized)
        _solve_activation(draft, quantized)
    _share_weight_scales(draft, graph)
    # a recipe may repeat what an earlier plan left in float
    kept = {name for name, why in recipe.float_nodes.items() if why != INT8_TABLE_REASON}
    for name, params, why in find_tables(graph, nodes, kept, target, per_tensor=recipe.per_tensor):
        draft.operands[name, 0], draft.why[operand_key(name, 0)] = params, why
        draft.floats[name] = INT8_TABLE_REASON
    return draft


@dataclass
class _Draft:
    """The plan while it is solved; the fields have the meaning that they have in `Plan`."""

    target: Target
    assignment: PrecisionAssignment
    recipe: Recipe
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
        return nodes_beyond_litert(nodes, self.tensors, self.edges, self.folded)


def _solve_width_changes(
    draft: _Draft, groups: ScaleGroups, stats: Mapping[str, TensorStats]
) -> None:
    """Requantize inputs that have another width than the output of the node that reads them."""
    group_of = {name: group for group in groups.to_groups() for name in group.tensors}
    for name, quantized in draft.assignment.quantized_nodes.items():
        output = draft.tensors.get(name_of(quantized.node.outputs[0]))
        for operand in quantized.operands if output is not None else ():
            source = name_of(operand.value)
            before = draft.tensors.get(source)
            if operand.role is not Role.ACTIVATION or before is None or output is None:
                continue
            if before.qtype.bits == output.qtype.bits or (name, operand.position) in draft.edges:
                continue
            if before.qtype.bits < output.qtype.bits:
                params = widen_qparams(before, output.qtype)
            else:
                params, _ = _group_qparams(draft, group_of[source], groups, stats, draft.target)
            draft.edges[name, operand.position] = params
            why = Why("derived", f"{source}, in {output.qtype.bits} bits as {name} computes")
            draft.why[operand_key(name, operand.position)] = why


def _solve_group(
    draft: _Draft,
    group: ScaleGroup,
    groups: ScaleGroups,
    stats: Mapping[str, TensorStats],
    target: Target,
    width_reason: str,
) -> None:
    params, reason = _group_qparams(draft, group, groups, stats, target, asked=bool(width_reason))
    for name in group.tensors:
        draft.tensors[name] = params
        draft.why[name] = (
            Why("same", group.shared_via[name]) if name in group.shared_via else reason
        )
        if width_reason:
            draft.why[name] = note_width(draft.why[name], params.qtype, width_reason)


def _group_qparams(
    draft: _Draft,
    group: ScaleGroup,
    groups: ScaleGroups,
    stats: Mapping[str, TensorStats],
    target: Target,
    *,
    asked: bool = False,
) -> tuple[QuantParams, Why]:
    if group.fixed_qparams is not None:
        op, fixed = group.fixed_qparams
        params = QuantParams.per_tensor(fixed.scale, fixed.zero_point, draft.target.activation)
        params = widen_qparams(params, target.activation)
        reason = Why("fixed", f"LiteRT's specification for {op}")
    else:
        methods = draft.recipe.chosen_methods
        chosen = next(
            (methods[n] for n in group.tensors if n in methods), draft.recipe.default_method
        )
        # a method that was chosen for 8 bits can cut off what 16 hold
        if asked and draft.recipe.method == AUTO:
            chosen = ChosenMethod(FALLBACK_METHOD, FALLBACK_METHOD)
        params = group_qparams(group, groups, stats, get_observer(chosen.method), target)
        observed = any(not is_constant(groups.values[name]) for name in group.observed_tensors)
        reason = (
            Why("observed", chosen.detail) if observed else Why("constant", "minimum and maximum")
        )
    return params, reason


def _solve_requantized_inputs(draft: _Draft, edges: Iterable[tuple[str, int]]) -> None:
    """Requantize inputs to the parameters of the output of the node that reads them."""
    for name, position in edges:
        output = name_of(draft.assignment.quantized_nodes[name].node.outputs[0])
        draft.edges[name, position] = draft.tensors[output]
        draft.why[operand_key(name, position)] = Why("same", f"{output}, through {name}")


def _solve_operands(draft: _Draft, quantized: QuantizedNode) -> None:
    """Set the parameters and the reasons of a node's weight and bias."""
    name = quantized.node.name
    assert name is not None
    inputs = [
        draft.edges.get((name, operand.position)) or draft.tensors[name_of(operand.value)]
        for operand in quantized.operands
        if operand.role is Role.ACTIVATION
    ]
    recipe = draft.recipe
    solved = weight_and_bias_qparams(
        quantized,
        inputs,
        draft.target,
        per_tensor=recipe.per_tensor,
        reduced=recipe.weights == "reduced",
    )
    for position, (params, why) in solved.items():
        draft.operands[name, position] = params
        draft.why[operand_key(name, position)] = why


def _share_weight_scales(draft: _Draft, graph: Graph) -> None:
    """Give all nodes that share a weight one set of scales for it."""
    nodes = draft.assignment.quantized_nodes
    found = shared_weight_qparams(weight_families(graph), nodes, draft.operands, draft.tensors)
    for name, position, (params, why) in list(found):
        draft.operands[name, position] = params
        draft.why[operand_key(name, position)] = why


def _solve_activation(draft: _Draft, quantized: QuantizedNode) -> None:
    """Fold a fused activation into its producer, or clamp on integers.

    It folds where the bounds contain 0 and the range of the output's integers lies within the bounds.
    """
    name = quantized.node.name
    if name is None or name not in draft.assignment.fused_activations:
        return
    producer = draft.assignment.fused_activations[name]
    params = draft.tensors[name_of(quantized.node.outputs[0])]
    if can_fold(quantized, params):
        draft.folded[name] = producer
        before = name_of(quantized.inputs_with_role(Role.ACTIVATION)[0])
        del draft.tensors[before], draft.why[before]
    else:
        qlo, qhi = (int(params.quantize(bound)) for bound in clamp_bounds(quantized))
        draft.clamps[name] = Clamp(producer, qlo, qhi)
