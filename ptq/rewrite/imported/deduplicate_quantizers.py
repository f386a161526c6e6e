"""Makes one of quantizers that quantize the same value the same way.

quantize_static writes one for each reader on demand. ONNX Runtime's basic optimizations leave one of them, so that
what computes the value has one reader and an integer kernel.
"""

from __future__ import annotations

from ptq.model.graph import Graph
from ptq.model.node import Node, Value, consumers_of, operator_of
from ptq.model.qdq_units import read_quantizer


def deduplicate_quantizers(graph: Graph) -> None:
    """Let the readers of later quantizers of a value read the first that is like them."""
    for node in graph.nodes:
        source = node.inputs[0] if operator_of(node) == "QuantizeLinear" else None
        if source is None or node.outputs[0].is_graph_output():
            continue
        first = _earlier_duplicate(node, source)
        if first is not None:
            graph.redirect(node.outputs[0], first)


def _earlier_duplicate(node: Node, source: Value) -> Value | None:
    """The output of an earlier quantizer that has the same parameters."""
    own = read_quantizer(node, node.outputs[0])
    for other in consumers_of(source) if own is not None else ():
        if other is node:
            return None
        found = (
            read_quantizer(other, other.outputs[0])
            if operator_of(other) == "QuantizeLinear"
            else None
        )
        if own is not None and found is not None and found.params == own.params:
            return other.outputs[0]
    return None
