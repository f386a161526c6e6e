"""Candidate quantization parameters of a scale group: one set for each range method and fold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ptq.calibration.calibration import Fold
from ptq.core.targets import Target
from ptq.core.types import QuantParams
from ptq.model.node import operator_of
from ptq.observers import OBSERVERS
from ptq.solver.recipe import FALLBACK_METHOD
from ptq.solver.scales.group_qparams import group_qparams
from ptq.solver.scales.scale_groups import ScaleGroup, ScaleGroups

METHODS = (FALLBACK_METHOD, "minmax", "percentile")
_SCALE_TOLERANCE = 0.02
"""Scales whose logarithms differ by less count as equal."""


@dataclass(frozen=True, eq=False)
class GroupCandidates:
    """A scale group with its candidate parameters.

    Attributes:
        group: The scale group.
        kind: The operator that writes it, or ``input``.
        params: For each method, the parameters of each fold; methods with similar parameters are left out.
    """

    group: ScaleGroup
    kind: str
    params: Mapping[str, Sequence[QuantParams]]

    @property
    def scale_ratio(self) -> float:
        """The largest ratio between the scales of two methods, over all folds."""
        by_fold = zip(*self.params.values(), strict=True)
        scales = [[float(params.scale) for params in methods] for methods in by_fold]
        return max(max(fold) / min(fold) for fold in scales)


def group_candidates(
    group: ScaleGroup,
    groups: ScaleGroups,
    folds: Sequence[Fold],
    row: Target,
    methods: Sequence[str] = METHODS,
) -> GroupCandidates:
    """The parameters of a scale group by each method, in each fold; similar ones once."""
    params: dict[str, list[QuantParams]] = {}
    for method in methods:
        found = [
            group_qparams(group, groups, fold.calibration.tensors, OBSERVERS[method], row)
            for fold in folds
        ]
        if not any(all(map(_are_similar, found, other)) for other in params.values()):
            params[method] = found
    writer = groups.values[group.observed_tensors[0]].producer()
    return GroupCandidates(group, "input" if writer is None else operator_of(writer), params)


def _are_similar(one: QuantParams, other: QuantParams) -> bool:
    near = abs(math.log(float(one.scale) / float(other.scale))) < _SCALE_TOLERANCE
    return near and abs(int(one.zero_point) - int(other.zero_point)) <= 1
