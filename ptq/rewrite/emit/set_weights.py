"""Replacement of weights by others of the same shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from ptq.core.opspec import WEIGHT_INPUT
from ptq.model.graph import Graph
from ptq.model.node import Value, get_node_name
from ptq.rewrite.emit.rounded_weight import RoundedWeight


def set_weights(graph: Graph, weights: Mapping[str, NDArray[Any] | RoundedWeight]) -> None:
    """Set these weights, by the name of the node that has the weight as its second input.

    Nodes for which the same object is given read one initializer.
    """
    added: dict[int, Value] = {}
    for node in graph.nodes:
        array = weights.get(get_node_name(node))
        weight = None if array is None else node.inputs[WEIGHT_INPUT]
        if array is not None and weight is not None:
            if id(array) not in added:
                added[id(array)] = graph.add_constant(array, weight.name or "weight")
            node.replace_input_with(WEIGHT_INPUT, added[id(array)])


def replace_weights(graph: Graph, weights: Mapping[str, NDArray[Any] | RoundedWeight]) -> Graph:
    """A copy of the graph with these weights."""
    changed = graph.copy()
    set_weights(changed, weights)
    return changed
