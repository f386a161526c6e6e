"""QuantizeLinear ∘ Relu, Clip → QuantizeLinear, if saturation does the work of the clamp.

QuantizeLinear saturates. If the bounds of the clamp become the lowest and the highest integer, the clamp has no
effect. ONNX Runtime 1.31 removes it by the same rule (measured with scales near 6 / 255).
"""

from __future__ import annotations

from ptq.core.types import QuantParams
from ptq.model.graph import Graph
from ptq.model.node import Node, find_clip_bounds, get_operator, list_consumers
from ptq.model.qdq.qdq_units import find_quantized_source, read_quantizer
from ptq.rewrite.change import Change


def remove_redundant_clamps(graph: Graph) -> list[Change]:
    """Let quantizers read the input of a clamp without effect, in place."""
    count = 0
    for node in graph.nodes:
        if get_operator(node) != "QuantizeLinear" or node.inputs[0] is None:
            continue
        clamp, found = node.inputs[0].producer(), read_quantizer(node, node.outputs[0])
        if clamp is None or found is None or found.params.axis is not None:
            continue
        before = clamp.inputs[0] if clamp.inputs else None
        if (
            before is None
            or find_quantized_source(before) is not None  # this clamp is an integer operator itself
            or list_consumers(clamp.outputs[0]) != [node]
            or clamp.outputs[0].is_graph_output()
        ):
            continue
        if _is_redundant(clamp, found.params):
            node.replace_input_with(0, before)
            count += 1
    if not count:
        return []
    graph.remove_unused()
    return [Change("remove_redundant_clamps", count)]


def _is_redundant(clamp: Node, params: QuantParams) -> bool:
    lowest, highest = params.qtype.lo, params.qtype.hi
    if get_operator(clamp) == "Relu":
        return int(params.zero_point) == lowest
    if get_operator(clamp) != "Clip":
        return False
    bounds = find_clip_bounds(clamp)
    return bounds is not None and [int(params.quantize(b)) for b in bounds] == [lowest, highest]
