"""Replacement of weights by others of the same shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from ptq.model.graph import Graph
from ptq.rewrite.emit.rounded_weight import RoundedWeight


def replace_weights(graph: Graph, weights: Mapping[str, NDArray[Any] | RoundedWeight]) -> Graph:
    """A copy of the graph with these weights, by the name of the node that has the weight as its second input."""
    changed = graph.copy()
    for node in changed.nodes:
        array = weights.get(node.name or "")
        if array is not None and node.inputs[1] is not None:
            hint = node.inputs[1].name or "weight"
            node.replace_input_with(1, changed.add_constant(array, hint))
    return changed
