"""Weights that are graph outputs too → weights of their own for the nodes that read them."""

from __future__ import annotations

from ptq.model.graph import Graph
from ptq.model.node import get_constant, get_name
from ptq.rewrite.change import Change


def separate_output_weights(graph: Graph) -> list[Change]:
    """Let the nodes that read a graph output that is a constant read a copy of it, in place."""
    count = 0
    for value in graph.outputs:
        array = get_constant(value)
        if array is not None:
            copy = graph.add_constant(array, f"{get_name(value)}_weight")
            graph.redirect(value, copy)
            output = graph.insert("Identity", [copy], output=get_name(value), shape_like=value)
            graph.replace_output(value, output)
            count += 1
    return [Change("separate_output_weights", count)] if count else []
