"""Statistics and a range method → scale and zero point of a scale group."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace

from ptq.core.opspec import OutputRule, Role
from ptq.core.target import Target
from ptq.core.types import QuantParams, Range
from ptq.model.node import Value, get_constant, get_name, get_spec, is_constant
from ptq.observers import Observer, TensorStats
from ptq.observers.qparams import compute_asymmetric_qparams, compute_symmetric_qparams
from ptq.solver.scales.scale_groups import ScaleGroup, ScaleGroups


def find_tensors_holding_values(value: Value, observed: Container[str]) -> list[Value] | None:
    """The observed or constant tensors that together hold all values of a tensor; None if one is missing.

    A tensor that was not observed holds what data movement brought from the inputs of its producer.
    """
    if is_constant(value) or get_name(value) in observed:
        return [value]
    node = value.producer()
    spec = get_spec(node) if node is not None else None
    if (
        node is None
        or spec is None
        or spec.output_rule not in (OutputRule.SAME_AS_INPUT, OutputRule.ONE_GROUP)
    ):
        return None
    found: list[Value] = []
    for position, source in enumerate(node.inputs):
        if source is None or spec.role_of(position) not in (Role.ACTIVATION, Role.VALUE):
            continue
        sources = find_tensors_holding_values(source, observed)
        if sources is None:
            return None
        found += sources
    return found


def compute_group_qparams(
    group: ScaleGroup,
    groups: ScaleGroups,
    stats: Mapping[str, TensorStats],
    observer: Observer,
    target: Target,
) -> QuantParams:
    """The parameters of a group that no specification prescribes.

    Args:
        group: The group.
        groups: All groups, with their tensors.
        stats: Statistics of the calibration, by tensor.
        observer: The range method.
        target: The target to quantize for.

    Raises:
        StatsError: No finite value was observed.
    """
    return convert_range_to_qparams(_group_range(group, groups, stats, observer, target), target)


def _group_range(
    group: ScaleGroup,
    groups: ScaleGroups,
    stats: Mapping[str, TensorStats],
    observer: Observer,
    target: Target,
) -> Range:
    """The smallest range that contains 0 and the range of each observed tensor of the group."""
    found = Range(0.0, 0.0)
    for name in group.observed_tensors:
        for source in find_tensors_holding_values(groups.values[name], stats) or ():
            array = get_constant(source)
            if array is not None:
                found = found.union(Range(float(array.min()), float(array.max())))
            elif stats[get_name(source)].count:
                symmetric = target.symmetric_divisor is not None
                found = found.union(
                    observer(stats[get_name(source)], target.activation, symmetric=symmetric)
                )
    return found


def convert_range_to_qparams(covered: Range, target: Target) -> QuantParams:
    """The parameters that cover the range: with a zero point, or S = threshold / n around 0."""
    if target.symmetric_divisor is None:
        return compute_asymmetric_qparams(covered, target.activation)
    params = compute_symmetric_qparams(
        covered, replace(target.activation, hi=target.symmetric_divisor)
    )
    return replace(params, qtype=target.activation)
