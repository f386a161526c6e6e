"""Equal QuantizeLinear nodes of one tensor → one node.

quantize_static writes one for each reader if it is asked to. ONNX Runtime's basic optimizations keep one of them. The
operator that computes the tensor then has one reader, and an integer kernel.
"""

from __future__ import annotations

from ptq.model.graph import Graph
from ptq.model.node import Node, Value, get_operator, list_consumers
from ptq.model.qdq.qdq_units import read_quantizer
from ptq.rewrite.change import Change


def deduplicate_quantizers(graph: Graph) -> list[Change]:
    """Let the readers of a quantizer read the first one with equal parameters, in place."""
    count = 0
    for node in graph.nodes:
        source = node.inputs[0] if get_operator(node) == "QuantizeLinear" else None
        if source is None or node.outputs[0].is_graph_output():
            continue
        first = _find_earlier_duplicate(node, source)
        if first is not None:
            graph.redirect(node.outputs[0], first)
            count += 1
    graph.remove_unused()
    return [Change("deduplicate_quantizers", count)] if count else []


def _find_earlier_duplicate(node: Node, source: Value) -> Value | None:
    own = read_quantizer(node, node.outputs[0])
    for other in list_consumers(source) if own is not None else ():
        if other is node:
            return None
        found = (
            read_quantizer(other, other.outputs[0])
            if get_operator(other) == "QuantizeLinear"
            else None
        )
        if own is not None and found is not None and found.params == own.params:
            return other.outputs[0]
    return None
