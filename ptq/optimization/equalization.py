"""Are channels to be made alike between layers before anything is observed, and what does that gain?

Where weights have a scale for each channel, so that one scale suits a tensor's channels; where one scale serves a
whole weight, so that it suits the weight's. What is done and whether it pays is decided on calibration samples: three
of four say how far channels go, the rest what it gains.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ptq.calibration.channel_spreads import spreads
from ptq.core.plan import Plan
from ptq.core.targets import target
from ptq.core.wording import counted
from ptq.data import Sample, Samples
from ptq.data.progress import Progress, told
from ptq.model.graph import Graph
from ptq.model.node import consumers, name_of, operator
from ptq.observers.calibration_file import Calibration
from ptq.optimization.candidates import Forms
from ptq.optimization.equalization_factors import balance
from ptq.rewrite.equalize.boundary_scales import at_shores
from ptq.rewrite.equalize.channel_groups import GATED, Channels, channels
from ptq.rewrite.equalize.cross_layer_equalization import equalize
from ptq.rewrite.equalize.layer_pairs import pairs
from ptq.rewrite.equalize.scale_channels import (
    by_number,
    by_tensor,
    multiplied,
)
from ptq.rewrite.prepare.prepare import Prepared
from ptq.solver.partition.boundaries import Shores, shores
from ptq.solver.partition.eligibility import eligible
from ptq.solver.recipe import Recipe

SAMPLES = 256  # of the model; channels go little further on more
_FEWEST = 16  # without them chance decides
_EACH = 4  # every fourth is judged on
_REASON = "gives channels scales of their own; the quantizer beside it does"


def equalized(
    name: str,
    prepared: Prepared,
    samples: Samples | None,
    recipe: Recipe,
    *,
    stats: Calibration | None = None,
    plan: Plan | None = None,
    threads: int = 0,
    progress: Progress | None = None,
) -> Prepared:
    """The model with channels made alike, where that gains.

    Args:
        name: What the model is called.
        prepared: It.
        samples: For calibration; without any it stays as it is, unless the plan says what was done.
        recipe: What will be asked.
        stats: Statistics that will be used instead of gathered.
        plan: A plan that will be obeyed.
        threads: Threads for one operator; 0 is one a core.
        progress: Told how far it is.

    Raises:
        DataError: A sample is unreadable, does not fit, or the model fails on it.
        PlanError: The plan's factors do not fit the model.
    """
    graph = prepared.graph
    if plan is not None and plan.factors:
        made = _multiplied(graph, plan.factors, plan.shores)
        [said] = made.changes
        return replace(made, changes=(*prepared.changes, f"{said}, as the plan says"))
    given = plan.graph if plan else stats.graph if stats else None
    whole = recipe.per_tensor or not target(recipe.target).per_channel
    closed = _closed(graph, recipe)
    crossed = _shores(graph, recipe, closed)
    found = channels(graph, closed, crossed)
    if not (pairs(graph) if whole else found.readers or found.shores):
        return prepared
    if given == graph.digest():
        if plan is not None:
            return prepared
        left = "left channels unequal: the statistics given are of the model as it is"
        return replace(prepared, changes=(*prepared.changes, left))
    if samples is None:
        return prepared
    some = samples.spread(SAMPLES)
    judged = range(0, len(some), _EACH) if len(some) >= _EACH else range(0)
    learnt = some.subset(i for i in range(len(some)) if i not in judged)
    if not whole and not given and len(some) < _FEWEST:
        left = f"left channels unequal: {counted(len(some), 'sample')} cannot tell, {_FEWEST} could"
        return replace(prepared, changes=(*prepared.changes, left))
    read = told(learnt, "measuring channels", progress)
    if given:
        forms = itertools.chain(
            _one_a_weight(prepared, read, threads),
            _one_a_tensor(prepared, read, closed, crossed, threads),
        )
        fitting = (form for form in forms if form.graph.digest() == given)
        form = next(fitting, None)
        return replace(form, changes=(*prepared.changes, *form.changes)) if form else prepared
    tried = (
        _one_a_weight(prepared, read, threads)
        if whole
        else _one_a_tensor(prepared, read, closed, crossed, threads)
    )
    held = some.subset(judged)
    return Forms(name, prepared, recipe, learnt, held, threads, progress).best(tried)


def _one_a_weight(
    prepared: Prepared, samples: Iterable[Sample], threads: int
) -> Iterator[Prepared]:
    """Channels of weights that share a scale, made alike by cross-layer equalization."""
    graph = prepared.graph
    seen = spreads(
        graph, dict.fromkeys((pair.output for pair in pairs(graph)), 1), samples, threads
    )
    extremes = {name: (spread.least, spread.greatest) for name, spread in seen.items()}
    changed, count = equalize(graph, extremes)
    if count:
        note = f"equalized the channels between {counted(count, 'pair')} of layers"
        yield replace(prepared, graph=changed, changes=(note,))


def _one_a_tensor(
    prepared: Prepared,
    samples: Iterable[Sample],
    closed: Collection[str],
    crossed: Shores,
    threads: int,
) -> Iterator[Prepared]:
    """Channels of activations that share a scale, made alike.

    Short of gates; through them; between integers and float too; through bounds too.
    """
    graph = prepared.graph
    gates = {node.name or "" for node in graph.nodes if operator(node) in GATED}
    widest = channels(graph, closed, crossed)
    seen = spreads(graph, dict.fromkeys(_rounded(graph, widest), 1), samples, threads)
    ways: list[tuple[Collection[str], Shores, bool]]
    ways = [(gates, {}, False)] if channels(graph, gates).readers else []
    ways += [(closed, {}, False)] if channels(graph, closed).gated else []
    ways += [(closed, crossed, False)] if crossed else []
    ways += [(closed, crossed, True)] if widest.bounded else []
    known: list[Mapping[str, Sequence[float]]] = [{}]
    for left, between, through_clips in ways:
        found = channels(graph, left, between)
        made = by_tensor(found, balance(found, seen, through_clips=through_clips))
        if made in known:
            continue
        known.append(made)
        yield _multiplied(graph, made, between)


def _multiplied(
    graph: Graph, factors: Mapping[str, tuple[float, ...]], between: Shores
) -> Prepared:
    """The graph with these factors, what between integers and float takes them back left float."""
    found = channels(graph, shores=between)
    by = by_number(found, factors)
    unlike = {name for name, numbers in found.numbers.items() if (by[numbers] != 1).any()}
    used = {name: seeing for name, seeing in between.items() if name in unlike}
    changed = multiplied(graph, by_number(channels(graph, shores=used), factors), used)
    floats = dict.fromkeys((node.name or "" for node in at_shores(changed, used)), _REASON)
    return Prepared(changed, (_alike(factors),), factors, used, floats)


def _shores(graph: Graph, recipe: Recipe, closed: Collection[str]) -> Shores:
    """Where quantizers can take factors that nothing else hands on."""
    row = target(recipe.target)
    if not row.shores or recipe.per_tensor:
        return {}
    free = channels(graph, closed).numbers
    found = shores(graph, eligible(graph, row, recipe.floats).floats)
    return {name: seeing for name, seeing in found.items() if name not in free}


def _closed(graph: Graph, recipe: Recipe) -> frozenset[str]:
    """The nodes with a gate through which no factor passes at no cost: the target has no integers for it."""
    row = target(recipe.target)
    integers = eligible(graph, row, recipe.floats).integers if row.gated else {}
    return frozenset(
        node.name or ""
        for node in graph.nodes
        if operator(node) in GATED
        and (operator(node) not in row.gated or node.name not in integers)
    )


def _alike(factors: Mapping[str, Sequence[float]]) -> str:
    apart = {name: max(by) / min(by) for name, by in factors.items()}
    name = max(apart, key=lambda name: apart[name])
    most = f"most in {name}, by factors {apart[name]:.0f} times apart"
    whose = "1 layer's output" if len(apart) == 1 else f"{len(apart)} layers' outputs"
    return f"made the channels of {whose} alike, {most}"


def _rounded(graph: Graph, found: Channels) -> list[str]:
    """The numbered tensors, but for those that a fused activation alone reads."""
    named = {name_of(v): v for node in graph.nodes for v in node.outputs}
    readers = {name: [operator(n) for n in consumers(named[name])] for name in found.numbers}
    return [
        name
        for name, ops in readers.items()
        if name in found.shores or ops not in (["Relu"], ["Clip"])
    ]
