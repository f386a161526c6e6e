"""The report's lines on weights: how they are rounded, and which are stored once for several nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median

from ptq.core.opspec import WEIGHT_INPUT
from ptq.core.plan import Plan
from ptq.core.wording import plural
from ptq.model.graph import Graph
from ptq.model.node import get_node_name
from ptq.model.weights.shared_weights import find_weight_families
from ptq.solver.recipe import Recipe
from ptq.solver.rounding.gptq import WeightRounding


def describe_shared_weights(graph: Graph, plan: Plan) -> Iterator[str]:
    """The report's lines on weights that several nodes share: how many are stored once, and which are not."""
    stored_once = uses = 0
    weights = {
        get_node_name(node): node.inputs[WEIGHT_INPUT]
        for node in graph.nodes
        if len(node.inputs) > WEIGHT_INPUT
    }
    for family in dict.fromkeys(find_weight_families(graph).values()):
        found = {name: plan.find_weight_qparams(name) for name in family}
        floats = [name for name, params in found.items() if params is None]
        integers = [name for name in family if name not in floats]
        scales = {found[name] for name in integers}
        value = weights[family[0]]
        label = f"shared weight {'' if value is None else value.name}"
        if integers and floats:
            verb = "stays" if len(floats) == 1 else "stay"
            which = floats[0] if len(floats) == 1 else plural(len(floats), "node")
            yield f"{label}: stored in int8 and in float, because {which} {verb} float"
        if len(scales) > 1:
            yield f"{label}: stored {len(scales)} times, because the plan has that many sets of scales for it"
        if len(integers) > 1 and len(scales) == 1:
            stored_once, uses = stored_once + 1, uses + len(integers)
    if stored_once:
        yield f"shared weights: {plural(stored_once, 'weight')} of {plural(uses, 'layer')} stored once each"


def describe_roundings(
    recipe: Recipe, plan: Plan, roundings: Mapping[str, WeightRounding]
) -> Iterator[str]:
    """The report's line on second-order rounding: how many layers, and the median gain."""
    if roundings:
        yield _describe_rounding(roundings)
    elif plan.rounding and recipe.rounding == "second-order":
        yield (
            "weight rounding: to nearest in all layers "
            "(the plan's second-order rounding needs calibration samples)"
        )


def _describe_rounding(roundings: Mapping[str, WeightRounding]) -> str:
    gains = sorted(choice.gain_db for choice in roundings.values() if choice.rounded is not None)
    validated = all(choice.on_held_out for choice in roundings.values())
    measured = "held-out" if validated else "too optimistic: on the samples of the fit"
    if not gains:
        samples = "held-out samples" if validated else "the samples of the fit"
        return (
            f"weight rounding: to nearest in all layers (second-order is not better on {samples})"
        )
    nearest = len(roundings) - len(gains)
    line = (
        f"weight rounding: second-order (GPTQ) in {plural(len(gains), 'layer')}; layer error "
        f"{median(gains):.1f} dB lower than round-to-nearest (median, {measured})"
    )
    return line + (
        f"; to nearest in {plural(nearest, 'layer')}, where second-order is not better"
        if nearest
        else ""
    )
