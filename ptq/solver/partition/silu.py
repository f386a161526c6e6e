"""SiLU, x · sigmoid(x): in float ONNX Runtime computes both operators in one kernel, QuickGelu.

It does not where x comes from integers: each operator then reads a DequantizeLinear of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from ptq.model.node import Node, get_node_name, get_operator, list_consumers


def find_silus(nodes: Iterable[Node]) -> dict[str, tuple[str, str]]:
    """The Sigmoid nodes of SiLUs, each with the node before it, or an empty text, and the product that reads it."""
    found = {}
    for node in nodes:
        readers = list_consumers(node.outputs[0]) if get_operator(node) == "Sigmoid" else []
        if (
            len(readers) == 1
            and get_operator(readers[0]) == "Mul"
            and node.inputs[0] in readers[0].inputs
            and not node.outputs[0].is_graph_output()
        ):
            source = node.inputs[0]
            maker = None if source is None else source.producer()
            before = "" if maker is None else get_node_name(maker)
            found[get_node_name(node)] = before, get_node_name(readers[0])
    return found
