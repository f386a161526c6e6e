"""Are channels to be made alike between layers before anything is observed, and what does that gain?

Where weights have a scale for each channel, so that one scale suits a tensor's channels; where one scale serves a
whole weight, so that it suits the weight's. What is done and whether it pays is decided on calibration samples: three
of four say how far channels go, the rest what it gains.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ptq.calibration.channel_spreads import collect_channel_spreads
from ptq.core.run_options import DEFAULT_RUN, RunOptions
from ptq.core.targets import get_target
from ptq.core.wording import plural
from ptq.data import Sample, Samples
from ptq.model.graph import Graph
from ptq.model.node import consumers_of, name_of, operator_of
from ptq.optimization.candidates import CandidateComparison
from ptq.optimization.equalization_factors import equalization_factors
from ptq.optimization.given import NOTHING_GIVEN, Given
from ptq.rewrite.equalize.boundary_scales import boundary_scale_nodes
from ptq.rewrite.equalize.channel_groups import ChannelGroups, group_channels
from ptq.rewrite.equalize.channel_walk import GATED_OPS
from ptq.rewrite.equalize.cross_layer_equalization import equalize_layers
from ptq.rewrite.equalize.layer_pairs import find_layer_pairs
from ptq.rewrite.equalize.scale_channels import (
    factors_by_group,
    factors_by_tensor,
    scale_channels,
)
from ptq.rewrite.prepare.prepare import PreparedModel
from ptq.solver.partition.boundaries import Boundaries, per_channel_boundaries
from ptq.solver.partition.eligibility import assign_precision
from ptq.solver.recipe import Recipe

SAMPLES = 256  # of the model; channels go little further on more
_MIN_SAMPLES = 16  # without them chance decides
_HOLDOUT_EVERY = 4  # every fourth is judged on
_REASON = "gives channels scales of their own; the quantizer beside it does"


def equalize_channels(
    name: str,
    prepared: PreparedModel,
    samples: Samples | None,
    recipe: Recipe,
    given: Given = NOTHING_GIVEN,
    run: RunOptions = DEFAULT_RUN,
) -> PreparedModel:
    """The model with channels made alike, where that gains.

    Args:
        name: What the model is called.
        prepared: It.
        samples: For calibration; without any it stays as it is, unless the plan says what was done.
        recipe: What will be asked.
        given: Statistics or a plan of an earlier run.
        run: How the job runs.

    Raises:
        DataError: A sample is unreadable, does not fit, or the model fails on it.
        PlanError: The plan's factors do not fit the model.
    """
    graph = prepared.graph
    plan = given.plan
    if plan is not None and plan.channel_factors:
        made = _with_factors(graph, plan.channel_factors, plan.boundaries)
        [said] = made.changes
        return replace(made, changes=(*prepared.changes, f"{said}, as the plan says"))
    whole = recipe.per_tensor or not get_target(recipe.target).per_channel
    closed = _blocking_gates(graph, recipe)
    crossed = _find_boundaries(graph, recipe, closed)
    found = group_channels(graph, closed, crossed)
    if not (find_layer_pairs(graph) if whole else found.readers or found.boundaries):
        return prepared
    if given.belongs_to(graph):
        if plan is not None:
            return prepared
        left = "left channels unequal: the statistics given are of the model as it is"
        return replace(prepared, changes=(*prepared.changes, left))
    if samples is None:
        return prepared
    some = samples.spread(SAMPLES)
    judged = range(0, len(some), _HOLDOUT_EVERY) if len(some) >= _HOLDOUT_EVERY else range(0)
    learnt = some.subset(i for i in range(len(some)) if i not in judged)
    if not whole and given.digest is None and len(some) < _MIN_SAMPLES:
        left = f"left channels unequal: {plural(len(some), 'sample')} cannot tell, {_MIN_SAMPLES} could"
        return replace(prepared, changes=(*prepared.changes, left))
    read = run.track(learnt, "measuring channels")
    if given.digest is not None:
        forms = itertools.chain(
            _cross_layer_candidates(prepared, read, run),
            _activation_candidates(prepared, read, closed, crossed, run),
        )
        fitting = (form for form in forms if given.belongs_to(form.graph))
        form = next(fitting, None)
        return replace(form, changes=(*prepared.changes, *form.changes)) if form else prepared
    tried = (
        _cross_layer_candidates(prepared, read, run)
        if whole
        else _activation_candidates(prepared, read, closed, crossed, run)
    )
    held = some.subset(judged)
    return CandidateComparison(name, prepared, recipe, learnt, held, run).select_best(tried)


def _cross_layer_candidates(
    prepared: PreparedModel, samples: Iterable[Sample], run: RunOptions
) -> Iterator[PreparedModel]:
    """Channels of weights that share a scale, made alike by cross-layer equalization."""
    graph = prepared.graph
    seen = collect_channel_spreads(
        graph, dict.fromkeys((pair.output for pair in find_layer_pairs(graph)), 1), samples, run
    )
    extremes = {name: (spread.least, spread.greatest) for name, spread in seen.items()}
    changed, count = equalize_layers(graph, extremes)
    if count:
        note = f"equalized the channels between {plural(count, 'pair')} of layers"
        yield replace(prepared, graph=changed, changes=(note,))


def _activation_candidates(
    prepared: PreparedModel,
    samples: Iterable[Sample],
    closed: Collection[str],
    crossed: Boundaries,
    run: RunOptions,
) -> Iterator[PreparedModel]:
    """Channels of activations that share a scale, made alike.

    Short of gates; through them; between integers and float too; through bounds too.
    """
    graph = prepared.graph
    gates = {node.name or "" for node in graph.nodes if operator_of(node) in GATED_OPS}
    widest = group_channels(graph, closed, crossed)
    seen = collect_channel_spreads(
        graph, dict.fromkeys(_rounded_tensors(graph, widest), 1), samples, run
    )
    ways: list[tuple[Collection[str], Boundaries, bool]]
    ways = [(gates, {}, False)] if group_channels(graph, gates).readers else []
    ways += [(closed, {}, False)] if group_channels(graph, closed).gated_nodes else []
    ways += [(closed, crossed, False)] if crossed else []
    ways += [(closed, crossed, True)] if widest.clip_bounds else []
    known: list[Mapping[str, Sequence[float]]] = [{}]
    for left, between, through_clips in ways:
        found = group_channels(graph, left, between)
        made = factors_by_tensor(
            found, equalization_factors(found, seen, through_clips=through_clips)
        )
        if made in known:
            continue
        known.append(made)
        yield _with_factors(graph, made, between)


def _with_factors(
    graph: Graph, factors: Mapping[str, tuple[float, ...]], between: Boundaries
) -> PreparedModel:
    """The graph with these factors, what between integers and float takes them back left float."""
    found = group_channels(graph, boundaries=between)
    by = factors_by_group(found, factors)
    unlike = {name for name, numbers in found.groups.items() if (by[numbers] != 1).any()}
    used = {name: seeing for name, seeing in between.items() if name in unlike}
    changed = scale_channels(
        graph, factors_by_group(group_channels(graph, boundaries=used), factors), used
    )
    floats = dict.fromkeys(
        (node.name or "" for node in boundary_scale_nodes(changed, used)), _REASON
    )
    return PreparedModel(changed, (_describe_factors(factors),), factors, used, floats)


def _find_boundaries(graph: Graph, recipe: Recipe, closed: Collection[str]) -> Boundaries:
    """Where quantizers can take factors that nothing else hands on."""
    row = get_target(recipe.target)
    if not row.per_channel_boundaries or recipe.per_tensor:
        return {}
    free = group_channels(graph, closed).groups
    found = per_channel_boundaries(
        graph, assign_precision(graph, row, recipe.float_nodes).float_nodes
    )
    return {name: seeing for name, seeing in found.items() if name not in free}


def _blocking_gates(graph: Graph, recipe: Recipe) -> frozenset[str]:
    """The nodes with a gate through which no factor passes at no cost: the target has no integers for it."""
    row = get_target(recipe.target)
    integers = (
        assign_precision(graph, row, recipe.float_nodes).quantized_nodes
        if row.scale_through
        else {}
    )
    return frozenset(
        node.name or ""
        for node in graph.nodes
        if operator_of(node) in GATED_OPS
        and (operator_of(node) not in row.scale_through or node.name not in integers)
    )


def _describe_factors(factors: Mapping[str, Sequence[float]]) -> str:
    apart = {name: max(by) / min(by) for name, by in factors.items()}
    name = max(apart, key=lambda name: apart[name])
    most = f"most in {name}, by factors {apart[name]:.0f} times apart"
    whose = "1 layer's output" if len(apart) == 1 else f"{len(apart)} layers' outputs"
    return f"made the channels of {whose} alike, {most}"


def _rounded_tensors(graph: Graph, found: ChannelGroups) -> list[str]:
    """The numbered tensors, but for those that a fused activation alone reads."""
    named = {name_of(v): v for node in graph.nodes for v in node.outputs}
    readers = {name: [operator_of(n) for n in consumers_of(named[name])] for name in found.groups}
    return [
        name
        for name, ops in readers.items()
        if name in found.boundaries or ops not in (["Relu"], ["Clip"])
    ]
