"""Which nodes are whole attentions, made of products and a Softmax that have integer kernels of their own?"""

from __future__ import annotations

import onnx
import onnx.inliner

from ptq.core.wording import plural
from ptq.model.graph import Graph
from ptq.model.node import operator_of
from ptq.model.operator_versions import write_default_attributes

DECOMPOSED_OPS = [("", "Attention")]


def decompose_attention(graph: Graph) -> tuple[Graph, list[str]]:
    """The model with ONNX's Attention nodes as the operators that define them.

    Returns:
        The graph, and one sentence if it changed.
    """
    nodes = [node for node in graph.nodes if operator_of(node) == "Attention"]
    # of the scores before the Softmax, where they are put out, ONNX Runtime has another notion under a mask
    if not nodes or any(len(node.outputs) > 3 and node.outputs[3].name for node in nodes):
        return graph, []

    def opened(proto: onnx.ModelProto) -> onnx.ModelProto:
        proto = write_default_attributes(
            proto, [n for n in proto.graph.node if n.op_type == "Attention"]
        )
        return onnx.inliner.inline_selected_functions(
            proto, DECOMPOSED_OPS, inline_schema_functions=True
        )

    try:
        graph = graph.with_shapes().transform_proto(opened)
    except RuntimeError:  # a type is not known: the node stays, in float
        return graph, []
    return graph, [f"took {plural(len(nodes), 'Attention node')} apart into products and Softmax"]
