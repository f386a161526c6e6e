"""From what was observed to a plan: scale groups, ranges, fixed parameters, folded activations."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from ptq.core.errors import StatsError, UsageError
from ptq.core.opspec import Role
from ptq.core.plan import Clamp, Plan, Why, operand_key
from ptq.core.targets import TARGETS, Target
from ptq.core.types import INT8, QuantParams
from ptq.model.graph import Graph
from ptq.model.node import constant_of, name_of, operator_of
from ptq.observers import Observer, TensorStats, get_observer
from ptq.observers.attention_mask import is_masked
from ptq.solver.partition.eligibility import PrecisionAssignment, QuantizedNode, assign_precision
from ptq.solver.scales.concat_ranges import concats_with_unlike_ranges
from ptq.solver.scales.group_qparams import group_qparams, tensors_holding_values
from ptq.solver.scales.scale_groups import ScaleGroup, ScaleGroups, scale_groups
from ptq.solver.scales.weight_qparams import weight_and_bias_qparams

SKIPPED_REASON = "skipped by the user"

_MIN_DIVISOR_LSB = 8
"""Below, half a step is more than 1/16 of a divisor."""


@dataclass(frozen=True)
class ChosenMethod:
    """A range method for one scale group.

    Attributes:
        method: Its name.
        detail: The reason, for the plan.
    """

    method: str
    detail: str


@dataclass(frozen=True)
class SolverSettings:
    """What the user may ask of a plan.

    Attributes:
        method: Name of the range method, for the reasons.
        per_tensor: One scale for a whole weight instead of one an output channel.
        floats: Names of nodes, or operators, to leave float, with the reason.
        chosen: The method for single scale groups, by any of their tensors.
        reduced: Weights no two neighbours of which are so large that their products saturate int16.
    """

    method: str
    per_tensor: bool = False
    float_nodes: Mapping[str, str] = field(default_factory=dict)
    chosen_methods: Mapping[str, ChosenMethod] = field(default_factory=dict)
    reduced_weights: bool = False


def tensors_to_observe(graph: Graph) -> list[str]:
    """The tensors whose ranges any target may ask for, in graph order."""
    wanted: dict[str, None] = {}
    for target in TARGETS.values():
        groups = scale_groups(assign_precision(graph, target), target)
        wanted.update(dict.fromkeys(groups.observed_tensors()))
    return list(wanted)


def solve(
    graph: Graph,
    stats: Mapping[str, TensorStats],
    observer: Observer,
    target: Target,
    settings: SolverSettings,
) -> Plan:
    """Choose scale and zero point of every tensor that the target computes on as integers.

    Args:
        graph: A prepared graph, shapes inferred.
        stats: What calibration saw, by tensor.
        observer: The range method.
        target: What to quantize for.
        settings: The user's wishes.

    Raises:
        StatsError: A tensor that needs a range was not observed.
        UsageError: A node to leave float does not exist.
    """
    check_skipped_nodes(graph, settings.float_nodes)
    fate, groups = assign_precision_and_groups(graph, stats, target, settings.float_nodes)
    draft = _Draft(target, fate, settings, floats=dict(fate.float_nodes))
    for group in groups.to_groups():
        _solve_group(draft, group, groups, stats, observer)
    _solve_requantized_inputs(draft, groups.requantized_inputs)
    for integer in fate.quantized_nodes.values():
        _solve_operands(draft, integer)
        _solve_activation(draft, integer)
    return Plan(
        target=target.name,
        graph=graph.digest(),
        tensors=draft.tensors,
        operands=draft.operands,
        edges=draft.edges,
        folded=draft.folded,
        clamps=draft.clamps,
        floats=draft.floats,
        why=draft.why,
    )


@dataclass
class _Draft:
    """The plan while it is being solved."""

    target: Target
    assignment: PrecisionAssignment
    settings: SolverSettings
    tensors: dict[str, QuantParams] = field(default_factory=dict)
    operands: dict[tuple[str, int], QuantParams] = field(default_factory=dict)
    edges: dict[tuple[str, int], QuantParams] = field(default_factory=dict)
    folded: dict[str, str] = field(default_factory=dict)
    clamps: dict[str, Clamp] = field(default_factory=dict)
    floats: dict[str, str] = field(default_factory=dict)
    why: dict[str, Why] = field(default_factory=dict)


def check_skipped_nodes(graph: Graph, skip: Collection[str]) -> None:
    """Make sure that the nodes or operators to leave float exist.

    Raises:
        UsageError: One does not.
    """
    known = {node.name for node in graph.nodes} | {node.op_type for node in graph.nodes}
    unknown = sorted(set(skip) - known)
    if unknown:
        raise UsageError(
            f"--skip {unknown[0]}: the prepared graph has no such node or operator; "
            "`ptq inspect` lists them"
        )


def assign_precision_and_groups(
    graph: Graph, stats: Mapping[str, TensorStats], target: Target, floats: Mapping[str, str]
) -> tuple[PrecisionAssignment, ScaleGroups]:
    """Decide for every node, leaving float also those whose data or groups forbid integers."""
    refused = {
        name: f"{name} held NaN or Inf during calibration"
        for name, seen in stats.items()
        if seen.nonfinite_count
    }
    for node in graph.nodes:
        name = name_of(node.inputs[0]) if operator_of(node) == "Softmax" and node.inputs[0] else ""
        if name in stats and is_masked(stats[name]):
            refused[name] = f"{name} is masked: too wide for 8 bits to tell apart what is not"
    apart = {} if target.has_lookup_tables else concats_with_unlike_ranges(graph, stats)
    skip = {**_small_divisors(graph, stats), **apart, **floats}
    while True:
        fate = assign_precision(graph, target, skip, refused)
        groups = scale_groups(fate, target)
        unknown = [
            n
            for n in groups.observed_tensors()
            if tensors_holding_values(groups.values[n], stats) is None
        ]
        if not unknown:
            return fate, groups
        lost = set(unknown).intersection(tensors_to_observe(graph))
        if lost:
            raise StatsError(
                f"tensor {min(lost)} was not observed; calibrate again with this version"
            )
        refused.update((n, f"{n} was not observed before its activation") for n in unknown)


def _small_divisors(graph: Graph, stats: Mapping[str, TensorStats]) -> dict[str, str]:
    """The divisions whose divisor comes so near to zero that its integers say little of it, with the reason."""
    found = {}
    for node in graph.nodes:
        divisor = node.inputs[1] if operator_of(node) == "Div" else None
        seen = None if divisor is None else stats.get(name_of(divisor))
        if divisor is None or seen is None or not seen.count:
            continue
        least = max(seen.min, -seen.max, 0.0)
        step = (max(seen.max, 0.0) - min(seen.min, 0.0)) / INT8.lsb_count
        if least < _MIN_DIVISOR_LSB * step:
            found[node.name or ""] = (
                f"its divisor {name_of(divisor)} came within {_MIN_DIVISOR_LSB} steps of zero"
            )
    return found


def _solve_group(
    draft: _Draft,
    group: ScaleGroup,
    groups: ScaleGroups,
    stats: Mapping[str, TensorStats],
    observer: Observer,
) -> None:
    qtype, method = draft.target.activation, draft.settings.method
    if group.fixed_qparams is not None:
        op, fixed = group.fixed_qparams
        params = QuantParams.per_tensor(fixed.scale, fixed.zero_point, qtype)
        reason = Why("fixed", f"LiteRT's specification for {op}")
    else:
        chosen = next(
            (c for n in group.tensors if (c := draft.settings.chosen_methods.get(n))), None
        )
        if chosen is not None:
            method, observer = chosen.detail, get_observer(chosen.method)
        params = group_qparams(group, groups, stats, observer, draft.target)
        observed = any(constant_of(groups.values[name]) is None for name in group.observed_tensors)
        reason = Why("observed", method) if observed else Why("constant", "its own extremes")
    for name in group.tensors:
        draft.tensors[name] = params
        draft.why[name] = (
            Why("same", group.shared_via[name]) if name in group.shared_via else reason
        )


def _solve_requantized_inputs(draft: _Draft, edges: Iterable[tuple[str, int]]) -> None:
    """What an input is requantized to on its way to one node: the parameters of that node's output."""
    for name, position in edges:
        output = name_of(draft.assignment.quantized_nodes[name].node.outputs[0])
        draft.edges[name, position] = draft.tensors[output]
        draft.why[operand_key(name, position)] = Why("same", f"{output}, through {name}")


def _solve_operands(draft: _Draft, integer: QuantizedNode) -> None:
    name = integer.node.name
    assert name is not None
    inputs = [draft.tensors[name_of(value)] for value in integer.inputs_with_role(Role.ACTIVATION)]
    asked = draft.settings
    solved = weight_and_bias_qparams(
        integer, inputs, draft.target, per_tensor=asked.per_tensor, reduced=asked.reduced_weights
    )
    for position, (params, why) in solved.items():
        draft.operands[name, position] = params
        draft.why[operand_key(name, position)] = why


def _solve_activation(draft: _Draft, integer: QuantizedNode) -> None:
    """Fold a fused activation where the output's integers cannot leave its bounds anyway."""
    name = integer.node.name
    if name is None or name not in draft.assignment.fused_activations:
        return
    producer = draft.assignment.fused_activations[name]
    params = draft.tensors[name_of(integer.node.outputs[0])]
    lo, hi = _clamp_bounds(integer)
    step, zero = float(params.scale), int(params.zero_point)
    lowest, highest = step * (params.qtype.lo - zero), step * (params.qtype.hi - zero)
    half = step * (
        0.5 + 1e-4
    )  # [-1, 1] in 255 steps puts both ends half a step out, but for rounding
    if lo <= 0 <= hi and lowest >= lo - half and highest <= hi + half:
        draft.folded[name] = producer
        before = name_of(integer.inputs_with_role(Role.ACTIVATION)[0])
        del draft.tensors[before], draft.why[before]
    else:
        qlo, qhi = (int(params.quantize(bound)) for bound in (lo, hi))
        draft.clamps[name] = Clamp(producer, qlo, qhi)


def _clamp_bounds(integer: QuantizedNode) -> tuple[float, float]:
    """The real bounds of a Relu or Clip."""
    if integer.spec.op == "Relu":
        return 0.0, math.inf
    bounds = [-math.inf, math.inf]
    for operand in integer.operands:
        if operand.role is Role.VALUE:
            array = constant_of(operand.value)
            assert array is not None
            bounds[operand.position - 1] = float(array.item())
    return bounds[0], bounds[1]
