"""Which scale and zero point does a scale group take, given a range method?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ptq.nodes import constant, name_of
from ptq.observers import Observer, TensorStats
from ptq.observers.affine import asymmetric, symmetric
from ptq.scales.groups import Group, Groups
from ptq.scales.sources import seen_in
from ptq.targets import Target
from ptq.types import QuantParams, Range


def group_params(
    group: Group,
    groups: Groups,
    stats: Mapping[str, TensorStats],
    observer: Observer,
    target: Target,
) -> QuantParams:
    """The parameters of a group that no specification prescribes.

    Raises:
        StatsError: No finite value was seen.
    """
    return _spread(_range(group, groups, stats, observer, target), target)


def _range(
    group: Group,
    groups: Groups,
    stats: Mapping[str, TensorStats],
    observer: Observer,
    target: Target,
) -> Range:
    """The smallest range that contains that of each observed member."""
    span = Range(0.0, 0.0)
    for name in group.observed:
        for source in seen_in(groups.values[name], stats) or ():
            array = constant(source)
            if array is not None:
                span = span.union(Range(float(array.min()), float(array.max())))
            elif stats[name_of(source)].count:
                seen = stats[name_of(source)]
                around_zero = target.symmetric is not None
                span = span.union(observer(seen, target.activation, symmetric=around_zero))
    return span


def _spread(span: Range, target: Target) -> QuantParams:
    """The parameters that cover the range: with a zero point, or S = threshold / n around 0."""
    if target.symmetric is None:
        return asymmetric(span, target.activation)
    params = symmetric(span, replace(target.activation, hi=target.symmetric))
    return replace(params, qtype=target.activation)
