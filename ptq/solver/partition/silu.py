"""SiLU, x · sigmoid(x): in float ONNX Runtime computes both operators in one kernel, QuickGelu.

It does not where x comes from integers: each operator then reads a DequantizeLinear of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from ptq.model.node import Node, consumers_of, node_name, operator_of


def find_silus(nodes: Iterable[Node]) -> dict[str, tuple[str, str]]:
    """The Sigmoid nodes of SiLUs, each with the node before it, or an empty text, and the product that reads it."""
    found = {}
    for node in nodes:
        readers = consumers_of(node.outputs[0]) if operator_of(node) == "Sigmoid" else []
        if (
            len(readers) == 1
            and operator_of(readers[0]) == "Mul"
            and node.inputs[0] in readers[0].inputs
            and not node.outputs[0].is_graph_output()
        ):
            source = node.inputs[0]
            maker = None if source is None else source.producer()
            before = "" if maker is None else node_name(maker)
            found[node_name(node)] = before, node_name(readers[0])
    return found
