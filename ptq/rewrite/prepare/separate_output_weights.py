"""Which weights are outputs of the graph too?"""

from __future__ import annotations

from ptq.model.graph import Graph
from ptq.model.node import constant_of, name_of


def separate_output_weights(graph: Graph) -> list[str]:
    """Give the nodes that read such a weight one of their own, in place; nothing to report."""
    for value in graph.outputs:
        array = constant_of(value)
        if array is not None:
            own = graph.add_constant(array, f"{name_of(value)}_weight")
            graph.redirect(value, own)
            graph.replace_output(
                value, graph.insert("Identity", [own], output=name_of(value), shape_like=value)
            )
    return []
