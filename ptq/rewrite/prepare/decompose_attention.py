"""Attention → MatMul, Softmax, MatMul: the operators that define it have integer kernels, Attention has none."""

from __future__ import annotations

import onnx
import onnx.inliner

from ptq.model.graph import Graph
from ptq.model.node import get_operator
from ptq.model.proto.operator_versions import write_default_attributes
from ptq.rewrite.change import Change

DECOMPOSED_OPS = [("", "Attention")]
_KIND = "decompose_attention"


def decompose_attention(graph: Graph) -> list[Change]:
    """Replace ONNX's Attention nodes by the operators that define them, in place."""
    nodes = [node for node in graph.nodes if get_operator(node) == "Attention"]
    if not nodes:
        return []
    if any(len(node.outputs) > 3 and node.outputs[3].name for node in nodes):
        reason = "ONNX Runtime computes the scores, an output here, otherwise under a mask"
        return [Change(_KIND, len(nodes), declined=reason)]

    def inline(proto: onnx.ModelProto) -> onnx.ModelProto:
        proto = write_default_attributes(
            proto, [n for n in proto.graph.node if n.op_type == "Attention"]
        )
        return onnx.inliner.inline_selected_functions(
            proto, DECOMPOSED_OPS, inline_schema_functions=True
        )

    try:
        graph.replace_model(graph.with_shapes().transform_proto(inline))
    except RuntimeError:
        reason = "the type of an input is unknown"
        if any(None in node.inputs for node in nodes):
            reason = "an input, such as the mask, is omitted before one that is given"
        return [Change(_KIND, len(nodes), declined=reason)]
    return [Change(_KIND, len(nodes))]
