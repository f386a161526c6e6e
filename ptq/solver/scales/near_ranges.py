"""Inputs that other nodes read too, and whose range is nearly that of a Concat: they take one scale with its output.

With a scale of its own an input is rounded a second time where it is joined, which adds as much error as the first
rounding, and every value is computed anew instead of copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ptq.core.opspec import OutputRule, Role
from ptq.core.plan import Why
from ptq.core.target import Target
from ptq.core.types import QuantParams, Range
from ptq.model.node import get_name, get_node_name
from ptq.observers.qparams import compute_asymmetric_qparams
from ptq.solver.partition.eligibility import PrecisionAssignment
from ptq.solver.scales.clamp_bounds import can_fold, get_covered_range
from ptq.solver.scales.scale_groups import ScaleGroups

MOST_WIDENED = 1.25
"""How many times a range may become as long: the error of its rounding grows by up to 1.9 dB.

A second rounding in the same scale adds 3 dB.
"""


def share_near_ranges(
    assignment: PrecisionAssignment,
    groups: ScaleGroups,
    tensors: Mapping[str, QuantParams],
    target: Target,
) -> dict[str, tuple[QuantParams, Why | None]]:
    """Join the groups of a Concat's output and of inputs with nearly its range.

    Args:
        assignment: The nodes that will be quantized.
        groups: The scale groups; joined ones become one, in place.
        tensors: The parameters of every tensor so far.
        target: The target. Where LiteRT's specification holds, all inputs share a scale already.

    Returns:
        The parameters that change, by tensor, with the reason; None where the reason stays.
    """
    changed: dict[str, tuple[QuantParams, Why | None]] = {}
    shortest: dict[str, float] = {}
    for name, output, source in _list_inputs(assignment, target):
        pair = output, source
        own, other = (changed[n][0] if n in changed else tensors.get(n) for n in pair)
        roots = [groups.find_root(n) for n in pair]
        if own is None or other is None or roots[0] == roots[1]:
            continue
        joint = _join(own, other)
        lengths = zip(roots, map(_compute_length, (own, other)), strict=True)
        least = min(shortest.get(root, length) for root, length in lengths)
        if joint is None or _compute_length(joint) > MOST_WIDENED * least:
            continue
        if not _may_share(groups, pair, assignment, joint) or (
            _has_changed_input(groups, output, own != joint)
            or _has_changed_input(groups, source, other != joint)
        ):
            continue
        for old, this, that in ((own, output, source), (other, source, output)):
            why = Why("derived", f"range of {this} and {that}, nearly the same, which {name} joins")
            for member in groups.members_of(this) if old != joint else ():
                if member in tensors:
                    _, reason = changed.get(member, (None, None))
                    changed[member] = joint, why if member == this else reason
        groups.union(output, source, name)
        shortest[groups.find_root(output)] = least
    return changed


def _list_inputs(assignment: PrecisionAssignment, target: Target) -> Iterator[tuple[str, str, str]]:
    """Each node that joins tensors, with the names of its output and of an input."""
    if target.follows_litert_spec:
        return
    for name, quantized in assignment.quantized_nodes.items():
        if target.output_rule(quantized.spec) is OutputRule.ONE_GROUP:
            for value in quantized.inputs_with_role(Role.ACTIVATION):
                yield name, get_name(quantized.node.outputs[0]), get_name(value)


def _has_changed_input(groups: ScaleGroups, name: str, changes: bool) -> bool:
    """Whether the scale of an input of the model changes: 8-bit images are exact in theirs."""
    members = groups.members_of(name) if changes else ()
    return any(groups.values[member].is_graph_input() for member in members)


def _may_share(
    groups: ScaleGroups, pair: tuple[str, str], assignment: PrecisionAssignment, joint: QuantParams
) -> bool:
    """Whether no specification prescribes the parameters, and activations that fold still do."""
    if any(groups.fixed_qparams_of(name) is not None for name in pair):
        return False
    members = [member for name in pair for member in groups.members_of(name)]
    makers = (groups.values[member].producer() for member in members)
    names = [get_node_name(maker) for maker in makers if maker is not None]
    return all(
        can_fold(assignment.quantized_nodes[name], joint)
        for name in names
        if name in assignment.fused_activations
    )


def _join(one: QuantParams, other: QuantParams) -> QuantParams | None:
    """The parameters that cover both ranges; None where widths differ."""
    if one.qtype != other.qtype:
        return None
    (low, high), (least, most) = get_covered_range(one), get_covered_range(other)
    if low <= least and most <= high:
        return one
    if least <= low and high <= most:
        return other
    return compute_asymmetric_qparams(Range(min(low, least), max(high, most)), one.qtype)


def _compute_length(params: QuantParams) -> float:
    low, high = get_covered_range(params)
    return high - low
