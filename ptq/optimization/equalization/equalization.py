"""Equalization of channels between layers, kept only if cross-validation gains.

With one scale for each output channel of a weight, the factors make one scale suit all channels of a tensor. With one
scale for a whole weight, cross-layer equalization makes that scale suit the weight. All samples measure the
channels; the candidates are compared by cross-validation.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from ptq.calibration.calibration import FOLDS, list_tensors_to_collect
from ptq.calibration.channel_spreads import merge_spreads
from ptq.calibration.measured_tensors import MeasuredTensors, measure_tensors
from ptq.core.memory import release_memory
from ptq.core.run_options import RunOptions
from ptq.core.stages import MEASURING_CHANNELS
from ptq.core.target import Target
from ptq.core.wording import plural
from ptq.data import Samples, rank_by_digest
from ptq.model.graph import Graph
from ptq.model.node import get_name, get_operator, list_consumers
from ptq.model.weights.shared_weights import find_weight_families
from ptq.optimization.earlier_run import Given
from ptq.optimization.effort import MEASURED_VALUES, Effort
from ptq.optimization.equalization.candidates import CandidateComparison
from ptq.optimization.equalization.equalization_factors import compute_equalization_factors
from ptq.optimization.equalization.layer_pair_factors import balance_layer_pairs, list_pair_tensors
from ptq.rewrite.equalize.boundary_scales import find_boundary_scale_nodes
from ptq.rewrite.equalize.channel_groups import ChannelGroups, group_channels
from ptq.rewrite.equalize.channel_walk import GATED_OPS
from ptq.rewrite.equalize.cross_layer_equalization import equalize_layers
from ptq.rewrite.equalize.layer_pairs import find_layer_pairs
from ptq.rewrite.equalize.scale_channels import scale_channels, to_group_factors, to_tensor_factors
from ptq.rewrite.prepare.prepare import PreparedModel
from ptq.solver.partition.boundaries import Boundaries, find_per_channel_boundaries
from ptq.solver.partition.eligibility import PrecisionAssignment, assign_precision
from ptq.solver.recipe import Recipe

_MIN_SAMPLES = 16
"""With fewer samples chance decides."""
_REASON = "scales channels between int8 and float; the quantizer next to it does this"
TECHNIQUE = "equalization"

_Measure = Callable[[Mapping[str, int | None], Collection[str]], MeasuredTensors]
"""Measures tensors with their channel axes, until enough values of some of them were seen."""


@dataclass(frozen=True, eq=False)
class _Scope:
    """What equalization may change for a recipe.

    Attributes:
        per_tensor: Whether one scale serves a whole weight.
        closed: The nodes with a gate that no factor passes.
        boundaries: Tensors between int8 and float whose quantizers can scale channels.
    """

    per_tensor: bool
    closed: Collection[str]
    boundaries: Boundaries

    def has_channels(self, graph: Graph) -> bool:
        """Whether there is a channel that may be scaled."""
        if self.per_tensor:
            return bool(find_layer_pairs(graph))
        found = group_channels(graph, self.closed, self.boundaries, find_weight_families(graph))
        return bool(found.readers or found.boundaries)


def equalize_channels(
    name: str,
    prepared: PreparedModel,
    samples: Samples | None,
    recipe: Recipe,
    given: Given,
    effort: Effort,
    run: RunOptions,
) -> PreparedModel:
    """The model with equalized channels if that improves held-out samples; with a note on the decision.

    Args:
        name: The name of the model.
        prepared: The prepared model.
        samples: Calibration samples; without any, only the factors of a plan are applied.
        recipe: How the model is quantized.
        given: Statistics or a plan of an earlier run.
        effort: How many samples measure channels and compare; without any, only a plan's factors are applied.
        run: How the job runs.

    Raises:
        DataError: A sample is unreadable, does not fit, or the model fails on it.
        PlanError: The plan's factors do not fit the model.
    """
    graph, plan = prepared.graph, given.plan
    if plan is not None and plan.channel_factors:
        scaled = _with_factors(graph, plan.channel_factors, plan.boundaries)
        return scaled.in_place_of(prepared, f"{scaled.notes[0]}, factors of the plan")
    if given.stats is None and plan is None and not effort.comparison_samples:
        return prepared
    scope = _find_scope(graph, recipe)
    if not scope.has_channels(graph):
        return prepared
    if given.belongs_to(graph):
        return given.leave_unchanged(prepared, TECHNIQUE)
    if samples is None or not effort.comparison_samples:
        return prepared
    measure = partial(_measure_in_stages, graph, samples, effort.measuring_samples, run)
    measure_activations = cache(lambda: measure(*_find_activation_axes(graph, scope)))
    layer_candidates = _equalize_cross_layer(prepared, measure)
    tensor_candidates = _equalize_activations(prepared, measure_activations, scope)
    if given.digest is not None:
        both = itertools.chain(layer_candidates, tensor_candidates)
        same = next((one for one in both if given.allows(one.graph)), None)
        return prepared if same is None else same.in_place_of(prepared, same.notes[0])
    if not scope.per_tensor and len(samples) < _MIN_SAMPLES:
        few = f"{plural(len(samples), 'sample')}; at least {_MIN_SAMPLES} are needed"
        return prepared.with_note(f"{TECHNIQUE}: not applied ({few})")
    comparison = CandidateComparison(
        name, prepared, recipe, samples, run, effort,
        measured=None if scope.per_tensor else measure_activations(),
        known=given.find_wider_statistics(graph, len(samples)),
    )  # fmt: skip
    candidates = [*(layer_candidates if scope.per_tensor else tensor_candidates)]
    measure_activations.cache_clear()  # the comparison frees the values
    return comparison.select_best(candidates)


def _find_scope(graph: Graph, recipe: Recipe) -> _Scope:
    row = recipe.target_row
    assignment = assign_precision(graph, row, recipe.float_nodes)
    closed = _find_blocking_gates(graph, row, assignment)
    per_tensor = recipe.per_tensor or not row.per_channel
    has_boundaries = row.per_channel_boundaries and not recipe.per_tensor
    boundaries = _find_boundaries(graph, closed, assignment) if has_boundaries else {}
    return _Scope(per_tensor, closed, boundaries)


def _equalize_cross_layer(prepared: PreparedModel, measure: _Measure) -> Iterator[PreparedModel]:
    """The model after cross-layer equalization, for weights with one scale; nothing if no factor changes."""
    graph = prepared.graph
    pairs = list_pair_tensors(graph)
    folds = measure(pairs, pairs).list_spreads(pairs)
    factors = balance_layer_pairs(graph, folds)
    if factors:
        least = {
            name: spread.least.astype(np.float64) for name, spread in merge_spreads(folds).items()
        }
        changed = equalize_layers(graph, factors, least)
        note = f"{TECHNIQUE}: scaled channels between {plural(len(factors), 'pair')} of layers"
        yield replace(prepared, graph=changed, notes=(note,))


def _equalize_activations(
    prepared: PreparedModel, measure: Callable[[], MeasuredTensors], scope: _Scope
) -> Iterator[PreparedModel]:
    """Models with channels scaled so that one scale suits each activation.

    1. Factors stop at gates.
    2. Factors pass gates.
    3. Quantizers between int8 and float scale channels too.
    4. Factors pass Clip bounds too.
    """
    graph = prepared.graph
    gates = {node.name or "" for node in graph.nodes if get_operator(node) in GATED_OPS}
    group = partial(group_channels, graph, families=find_weight_families(graph))
    ungated, gated = group(gates), group(scope.closed)
    widest = group(scope.closed, scope.boundaries)
    folds = measure().list_spreads(_list_rounded_tensors(graph, widest))
    ways: list[tuple[ChannelGroups, Boundaries, bool]]
    ways = [(ungated, {}, False)] if ungated.readers else []
    ways += [(gated, {}, False)] if gated.gated_nodes else []
    ways += [(widest, scope.boundaries, False)] if scope.boundaries else []
    ways += [(widest, scope.boundaries, True)] if widest.clip_bounds else []
    known: list[Mapping[str, Sequence[float]]] = [{}]
    solved: dict[Hashable, NDArray[np.float64]] = {}
    for found, boundaries, through in ways:
        by_group = compute_equalization_factors(found, folds, through_clips=through, known=solved)
        factors = to_tensor_factors(found, by_group)
        if factors not in known:
            known.append(factors)
            yield _with_factors(graph, factors, boundaries)


def _find_activation_axes(graph: Graph, scope: _Scope) -> tuple[dict[str, int | None], list[str]]:
    """The tensors that the candidates need, with channel axes, and those whose spread decides factors."""
    wanted = list_tensors_to_collect(graph)
    grouped = group_channels(graph, scope.closed, scope.boundaries)
    rounded = _list_rounded_tensors(graph, grouped)
    scaled = {name: 1 for name in wanted.tensors if name in grouped.groups}
    axes: dict[str, int | None] = {**dict.fromkeys(wanted.tensors), **wanted.channel_axes}
    return {**axes, **scaled, **dict.fromkeys(rounded, 1)}, rounded


def _measure_in_stages(
    graph: Graph,
    samples: Samples,
    stages: Sequence[int],
    run: RunOptions,
    axes: Mapping[str, int | None],
    rounded: Collection[str],
) -> MeasuredTensors:
    """The values of tensors in each fold of the samples, from the lowest digests on, until enough were seen.

    Args:
        graph: The prepared graph.
        samples: The samples.
        stages: How many of them each stage has in all.
        run: How the job runs.
        axes: The channel axis of each tensor; None for none.
        rounded: The tensors of which enough values must be seen.
    """
    ranked, known = rank_by_digest(samples), 0
    measured = MeasuredTensors([{} for _ in range(FOLDS)], [0] * FOLDS)
    for count in stages:
        fold_of = {name: rank % FOLDS for rank, name in enumerate(ranked[:count]) if rank >= known}
        if not fold_of:
            break
        names = [[name for name, of in fold_of.items() if of == k] for k in range(FOLDS)]
        tracked = run.track(samples.subset(fold_of.__contains__), MEASURING_CHANNELS)
        measure_tensors(
            graph, axes, tracked, names, min(count, len(ranked)), into=measured, run=run
        )
        known = count
        seen = (fold[name].count for fold in measured.folds for name in rounded if name in fold)
        if sum(seen) >= MEASURED_VALUES:
            break
    release_memory()
    return measured


def _with_factors(
    graph: Graph, factors: Mapping[str, tuple[float, ...]], boundaries: Boundaries
) -> PreparedModel:
    """The graph with these factors; the nodes that undo them between int8 and float stay float."""
    found = group_channels(graph, boundaries=boundaries)
    by = to_group_factors(found, factors)
    scaled = {name for name, numbers in found.groups.items() if (by[numbers] != 1).any()}
    used = {name: readers for name, readers in boundaries.items() if name in scaled}
    changed = scale_channels(
        graph, to_group_factors(group_channels(graph, boundaries=used), factors), used
    )
    undoing = [node.name or "" for node in find_boundary_scale_nodes(changed, used)]
    floats = dict.fromkeys(undoing, _REASON)
    return PreparedModel(
        changed,
        notes=(_describe_factors(factors),),
        channel_factors=factors,
        boundaries=used,
        float_nodes=floats,
    )


def _find_boundaries(
    graph: Graph, closed: Collection[str], assignment: PrecisionAssignment
) -> Boundaries:
    """The tensors between int8 and float whose channels only the quantizers can scale."""
    free = group_channels(graph, closed).groups
    found = find_per_channel_boundaries(graph, assignment.float_nodes)
    return {name: readers for name, readers in found.items() if name not in free}


def _find_blocking_gates(
    graph: Graph, target: Target, assignment: PrecisionAssignment
) -> frozenset[str]:
    """The nodes with a gate that a factor does not pass at no cost: the target does not run them on integers."""
    through, integers = target.scale_through, assignment.quantized_nodes
    operators = ((node.name or "", get_operator(node)) for node in graph.nodes)
    return frozenset(
        name
        for name, op in operators
        if op in GATED_OPS and (op not in through or name not in integers)
    )


def _describe_factors(factors: Mapping[str, Sequence[float]]) -> str:
    ratios = {name: max(by) / min(by) for name, by in factors.items()}
    largest = max(ratios, key=lambda name: ratios[name])
    detail = f"largest: {largest}, factors differ by {ratios[largest]:.0f}×"
    return f"{TECHNIQUE}: scaled channels of {plural(len(ratios), 'layer')} ({detail})"


def _list_rounded_tensors(graph: Graph, found: ChannelGroups) -> list[str]:
    """The tensors with channel groups, except those that only a fused activation reads."""
    named = {get_name(v): v for node in graph.nodes for v in node.outputs}
    readers = {
        name: [get_operator(n) for n in list_consumers(named[name])] for name in found.groups
    }
    return [
        name
        for name, ops in readers.items()
        if name in found.boundaries or ops not in (["Relu"], ["Clip"])
    ]
