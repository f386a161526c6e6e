"""Candidate quantization parameters of scale groups: one set for each range method and fold.

Graph outputs, and the inputs of monotone functions that write graph outputs, keep their extremes, because order
matters there.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from ptq.calibration.calibration import CrossValidationFold
from ptq.core.target import Target
from ptq.core.types import QuantParams
from ptq.model.node import get_name, get_operator, list_consumers
from ptq.observers import OBSERVERS
from ptq.rewrite.equalize.boundary_scales import is_channel_scaling
from ptq.rewrite.instrument.logits import find_logits
from ptq.solver.assign import assign_precision_and_groups
from ptq.solver.quantizer import CalibratedModel
from ptq.solver.recipe import AUTO, FALLBACK_METHOD, ChosenMethod, Recipe
from ptq.solver.scales.group_qparams import compute_group_qparams
from ptq.solver.scales.scale_groups import ScaleGroup, ScaleGroups

METHODS = (FALLBACK_METHOD, "minmax", "percentile")
_MONOTONE = frozenset(["Softmax", "LogSoftmax", "Sigmoid", "HardSigmoid", "Tanh"])
OUTPUT_REASON = "minmax: order matters in a graph output"
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


def find_candidates(
    model: CalibratedModel,
    recipe: Recipe,
    folds: Sequence[CrossValidationFold],
    methods: Sequence[str] = METHODS,
) -> tuple[Recipe, list[GroupCandidates]]:
    """The recipe with minmax for graph outputs, and the candidate parameters of all other scale groups.

    If the user asks for one range method, the recipe stays unchanged and each group has one candidate.

    Raises:
        StatsError: A tensor that needs a range was not observed.
    """
    graph, row, stats = model.prepared.graph, recipe.target_row, model.calibration
    groups = assign_precision_and_groups(graph, stats.tensors, row, recipe.float_nodes)[1]
    free = [group for group in groups.to_groups() if _is_choosable(group, groups)]
    logits = {get_name(value) for output in graph.outputs for value in find_logits(output)}
    if recipe.method != AUTO:
        methods = (recipe.method,)
        return recipe, [group_candidates(group, groups, folds, row, methods) for group in free]
    output_groups = [group for group in free if _is_output_group(group, groups, logits)]
    chosen = {
        name: ChosenMethod("minmax", OUTPUT_REASON)
        for group in output_groups
        for name in group.tensors
    }
    return replace(recipe, chosen_methods=chosen), [
        group_candidates(group, groups, folds, row, methods)
        for group in free
        if group not in output_groups
    ]


def _is_choosable(group: ScaleGroup, groups: ScaleGroups) -> bool:
    values = [groups.values[name] for name in group.observed_tensors]
    return group.fixed_qparams is None and any(value.const_value is None for value in values)


def _is_output_group(group: ScaleGroup, groups: ScaleGroups, logits: Collection[str]) -> bool:
    """Whether a tensor is a graph output, or a graph output is a monotone function of it."""
    for name in group.tensors:
        value = groups.values[name]
        if name in logits or value.is_graph_output():
            return True
        for reader in list_consumers(value):
            out = reader.outputs[0]
            if get_operator(reader) in _MONOTONE and out.is_graph_output():
                return True
            if is_channel_scaling(reader) and (get_name(out) in logits or out.is_graph_output()):
                return True
    return False


def group_candidates(
    group: ScaleGroup,
    groups: ScaleGroups,
    folds: Sequence[CrossValidationFold],
    row: Target,
    methods: Sequence[str],
) -> GroupCandidates:
    """The parameters of a scale group by each method, in each fold; similar ones once."""
    params: dict[str, list[QuantParams]] = {}
    distinct = {id(fold.calibration): fold.calibration for fold in folds}
    for method in methods:
        of_statistics = {
            key: compute_group_qparams(group, groups, calibration.tensors, OBSERVERS[method], row)
            for key, calibration in distinct.items()
        }
        found = [of_statistics[id(fold.calibration)] for fold in folds]
        if not any(all(map(_are_similar, found, other)) for other in params.values()):
            params[method] = found
    writer = groups.values[group.observed_tensors[0]].producer()
    return GroupCandidates(group, "input" if writer is None else get_operator(writer), params)


def choose_params_by_fold(
    candidates: Sequence[GroupCandidates], folds: int, method: str, fallback: str
) -> list[dict[str, QuantParams]]:
    """For each fold, the parameters of each tensor by a method; by the fallback where that is left out."""
    by_group = [(c.group, c.params.get(method, c.params[fallback])) for c in candidates]
    return [
        {name: by_fold[fold] for group, by_fold in by_group for name in group.tensors}
        for fold in range(folds)
    ]


def _are_similar(one: QuantParams, other: QuantParams) -> bool:
    near = abs(math.log(float(one.scale) / float(other.scale))) < _SCALE_TOLERANCE
    return near and abs(int(one.zero_point) - int(other.zero_point)) <= 1
