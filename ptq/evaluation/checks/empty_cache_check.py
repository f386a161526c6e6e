"""A cache of keys and values that is empty in no sample, though the first step of a decoder has an empty one.

A cache is an input that grows: a Concat appends computed values to it along an open axis, and the graph gives out the
whole. First steps see other values than later ones, often the largest of all: ranges of later steps cut them.
"""

from __future__ import annotations

import re

from ptq.core.wording import plural
from ptq.data import Samples
from ptq.evaluation.diagnosis import Diagnosis
from ptq.model.graph import Graph
from ptq.model.node import Node, get_attributes, get_name, get_operator, get_shape

_MAX_SAMPLES = 256
"""Samples whose caches are looked at."""
_OF_ENCODER = re.compile("(past|cache).*(encoder|cross)", re.IGNORECASE)
"""Names of inputs with cached keys of an encoder: a model that reads these leaves the first step to another one."""


def check_empty_cache(graph: Graph, samples: Samples | None) -> Diagnosis | None:
    """Diagnose calibration without the first step of a decoder; None if it was there, or there is no cache.

    Args:
        graph: The model as it was given.
        samples: The calibration samples; None if only their statistics are given.

    Raises:
        DataError: A sample is bad; the text names it.
    """
    caches = find_caches(graph)
    names = [get_name(value) for value in graph.inputs]
    if samples is None or not caches or any(map(_OF_ENCODER.search, names)):
        return None
    name, axis = next(iter(caches.items()))
    given = (sample.feed.get(name) for sample in samples.spread(_MAX_SAMPLES))
    if any(array is None or array.shape[axis] == 0 for array in given):
        return None
    seen = f"none of {plural(min(len(samples), _MAX_SAMPLES), 'calibration sample')}"
    others = f" (nor are {len(caches) - 1} other caches)" if len(caches) > 1 else ""
    return Diagnosis(
        f"it is a cache that is empty in {seen}{others}: ranges may not hold for the first step",
        f"{name} (input)",
        "calibrate with first steps too, unless another model runs them",
    )


def find_caches(graph: Graph) -> dict[str, int]:
    """The inputs that grow, each with the axis of its positions."""
    return {name: axis for node in graph.nodes for name, axis in _find_cache(node)}


def _find_cache(node: Node) -> list[tuple[str, int]]:
    if get_operator(node) != "Concat" or not node.outputs[0].is_graph_output():
        return []
    given = [value for value in node.inputs if value is not None and value.is_graph_input()]
    if len(given) == len(node.inputs):
        return []
    found = []
    for value in given:
        shape = get_shape(value)
        axis = int(get_attributes(node)["axis"]) % len(shape) if shape else 0
        if shape and axis and shape[axis] is None:
            found.append((get_name(value), axis))
    return found
