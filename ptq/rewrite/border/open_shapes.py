"""Shapes that a written model does not declare: inferred ones of inner tensors with an open axis.

A reader infers them itself. One that gets the batch as a number, as tract does, finds that the declared symbol
contradicts it. What operators of other domains write stays declared: ONNX infers neither its type nor its shape.
"""

from __future__ import annotations

from ptq.model.graph import Graph
from ptq.model.node import ONNX_DOMAINS, get_name


def without_inferred_shapes(graph: Graph, given: Graph) -> Graph:
    """A copy of the graph without open shapes of inner tensors that the given model does not declare.

    Args:
        graph: A quantized graph.
        given: The float model that it was made from.
    """
    declared = {get_name(v) for node in given.nodes for v in node.outputs if v.shape is not None}
    changed = graph.copy()
    standard = (node for node in changed.nodes if node.domain in ONNX_DOMAINS)
    for value in (v for node in standard for v in node.outputs):
        if value.shape is None or value.is_graph_output() or get_name(value) in declared:
            continue
        if any(not isinstance(length, int) for length in value.shape):
            value.shape = value.type = None
    return changed
