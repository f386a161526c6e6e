"""Weights that are graph outputs too → weights of their own for the nodes that read them."""

from __future__ import annotations

from ptq.model.graph import Graph
from ptq.model.node import constant_of, name_of
from ptq.rewrite.change import Change


def separate_output_weights(graph: Graph) -> list[Change]:
    """Let the nodes that read a graph output that is a constant read a copy of it, in place."""
    count = 0
    for value in graph.outputs:
        array = constant_of(value)
        if array is not None:
            copy = graph.add_constant(array, f"{name_of(value)}_weight")
            graph.redirect(value, copy)
            output = graph.insert("Identity", [copy], output=name_of(value), shape_like=value)
            graph.replace_output(value, output)
            count += 1
    return [Change("separate_output_weights", count)] if count else []
