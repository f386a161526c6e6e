"""Which scale and zero point does a scale group take, given a range method?"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace

from ptq.core.ops import OPS
from ptq.core.opspec import OutputRule, Role
from ptq.core.targets import Target
from ptq.core.types import QuantParams, Range
from ptq.model.node import Value, constant_of, name_of, spec_name
from ptq.observers import Observer, TensorStats
from ptq.observers.qparams import asymmetric_qparams, symmetric_qparams
from ptq.solver.scales.scale_groups import ScaleGroup, ScaleGroups


def tensors_holding_values(value: Value, observed: Container[str]) -> list[Value] | None:
    """The observed or constant tensors that hold all of its values; None where there are none such."""
    if constant_of(value) is not None or name_of(value) in observed:
        return [value]
    node = value.producer()
    spec = OPS.get(spec_name(node)) if node is not None else None
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
        sources = tensors_holding_values(source, observed)
        if sources is None:
            return None
        found += sources
    return found


def group_qparams(
    group: ScaleGroup,
    groups: ScaleGroups,
    stats: Mapping[str, TensorStats],
    observer: Observer,
    target: Target,
) -> QuantParams:
    """The parameters of a group that no specification prescribes.

    Raises:
        StatsError: No finite value was seen.
    """
    return _range_to_qparams(_group_range(group, groups, stats, observer, target), target)


def _group_range(
    group: ScaleGroup,
    groups: ScaleGroups,
    stats: Mapping[str, TensorStats],
    observer: Observer,
    target: Target,
) -> Range:
    """The smallest range that contains that of each observed member."""
    span = Range(0.0, 0.0)
    for name in group.observed_tensors:
        for source in tensors_holding_values(groups.values[name], stats) or ():
            array = constant_of(source)
            if array is not None:
                span = span.union(Range(float(array.min()), float(array.max())))
            elif stats[name_of(source)].count:
                seen = stats[name_of(source)]
                around_zero = target.symmetric_divisor is not None
                span = span.union(observer(seen, target.activation, symmetric=around_zero))
    return span


def _range_to_qparams(span: Range, target: Target) -> QuantParams:
    """The parameters that cover the range: with a zero point, or S = threshold / n around 0."""
    if target.symmetric_divisor is None:
        return asymmetric_qparams(span, target.activation)
    params = symmetric_qparams(span, replace(target.activation, hi=target.symmetric_divisor))
    return replace(params, qtype=target.activation)
