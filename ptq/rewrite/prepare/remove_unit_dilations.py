"""AveragePool with dilations of 1 → AveragePool without: ONNX Runtime's integer kernel has no such attribute.

ONNX Runtime refuses to load a model in which its integer kernel would get the attribute.
"""

from __future__ import annotations

from ptq.model.graph import Graph
from ptq.model.node import get_attributes, get_operator
from ptq.rewrite.change import Change
from ptq.rewrite.edit import set_attributes


def remove_unit_dilations(graph: Graph) -> list[Change]:
    """Remove dilations of 1, the default, from every AveragePool, in place."""
    found = [
        node
        for node in graph.nodes
        if get_operator(node) == "AveragePool"
        and {*get_attributes(node).get("dilations", ())} == {1}
    ]
    for node in found:
        set_attributes(node, dilations=None)
    return [Change("remove_unit_dilations", len(found))] if found else []
