"""Which nodes are whole attentions, made of products and a Softmax that have integer kernels of their own?"""

from __future__ import annotations

import onnx
import onnx.inliner

from ptq.core.wording import counted
from ptq.model.graph import Graph
from ptq.model.node import operator
from ptq.model.operator_versions import with_defaults

OPENED = [("", "Attention")]


def open_attention(graph: Graph) -> tuple[Graph, list[str]]:
    """The model with ONNX's Attention nodes as the operators that define them.

    Returns:
        The graph, and one sentence if it changed.
    """
    nodes = [node for node in graph.nodes if operator(node) == "Attention"]
    # of the scores before the Softmax, where they are put out, ONNX Runtime has another notion under a mask
    if not nodes or any(len(node.outputs) > 3 and node.outputs[3].name for node in nodes):
        return graph, []

    def opened(proto: onnx.ModelProto) -> onnx.ModelProto:
        proto = with_defaults(proto, [n for n in proto.graph.node if n.op_type == "Attention"])
        return onnx.inliner.inline_selected_functions(proto, OPENED, inline_schema_functions=True)

    try:
        graph = graph.with_shapes().rebuilt(opened)
    except RuntimeError:  # a type is not known: the node stays, in float
        return graph, []
    return graph, [f"took {counted(len(nodes), 'Attention node')} apart into products and Softmax"]
