"""Sums of a convolution and a residual, on targets where the convolution's kernel adds the residual.

Such a kernel adds before it rounds. So the convolution's own output has no quantizer, and the residual has one. Both
may be convolutions; then the later one adds.
"""

from __future__ import annotations

from collections.abc import Collection

from ptq.model.graph import Graph
from ptq.model.node import Node, get_node_name, get_operator, list_consumers

_ADDING_OPS = ("Conv", "ConvTranspose")


def find_inputs_added_by_kernels(graph: Graph, integers: Collection[str]) -> dict[str, int]:
    """The input, by name of an Add, that stays float because the convolution that writes it adds the other one.

    Args:
        graph: A prepared graph.
        integers: Names of the nodes that could be quantized.
    """
    order = {node: place for place, node in enumerate(graph.nodes)}
    found = {}
    for node in graph.nodes:
        if get_operator(node) != "Add" or node.name not in integers:
            continue
        writers = [
            (order[maker], at) for at in (0, 1) if (maker := _find_adder(node, at, integers))
        ]
        if writers:
            found[get_node_name(node)] = max(writers)[1]
    return found


def _find_adder(node: Node, position: int, integers: Collection[str]) -> Node | None:
    """The quantized convolution that writes the input, if only the sum reads it and the other one is not constant."""
    value, other = node.inputs[position], node.inputs[1 - position]
    maker = value.producer() if value is not None else None
    if value is None or other is None or maker is None:
        return None
    if value is other or other.const_value is not None:
        return None
    if get_operator(maker) not in _ADDING_OPS or maker.name not in integers:
        return None
    return maker if list_consumers(value) == [node] and not value.is_graph_output() else None
