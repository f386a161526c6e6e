"""Shape and type inference by ONNX, for the whole model or for one node with the current shapes of its inputs."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
import onnx.checker
import onnx.defs
import onnx.shape_inference
import onnx_ir as ir

from ptq.model.graph import Graph
from ptq.model.node import ONNX_DOMAINS, Node, Value, get_constant, get_name, get_shape
from ptq.model.session.runtime_types import add_runtime_types
from ptq.rewrite.change import Change

MAX_CONSTANT_ELEMENTS = 1024
"""Shape inference gets the values of constants up to this size; larger constants are weights."""


def infer_shapes(graph: Graph) -> list[Change]:
    """Add what ONNX's shape inference finds for the whole model, in place; there is nothing to report.

    What it leaves without a type, ONNX Runtime infers.
    """
    graph.replace_model(graph.with_shapes())
    add_runtime_types(graph)
    return []


def refine_node_shapes(node: Node, opset: int) -> None:
    """Complete the shapes and types of one node's outputs by ONNX's shape inference."""
    if (
        node.domain not in ONNX_DOMAINS
        or _has_static_shapes(node)
        or not onnx.defs.has(node.op_type, opset)
    ):
        return
    graphs = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
    inputs = {get_name(v): v for v in node.inputs if v is not None}
    if any(a.type in graphs for a in node.attributes.values()):
        return
    if not all(isinstance(v.type, ir.TensorType) for v in inputs.values()):
        return
    for value, message in zip(node.outputs, _infer_types(node, inputs, opset), strict=True):
        if message is not None:
            value.type = value.type or ir.serde.deserialize_type_proto_for_type(message)
            refine_shape(value, ir.serde.deserialize_type_proto_for_shape(message))


def _has_static_shapes(node: Node) -> bool:
    shapes = [get_shape(v) for v in node.outputs]
    return all(
        v.type is not None and s is not None and None not in s
        for v, s in zip(node.outputs, shapes, strict=True)
    )


def _infer_types(
    node: Node, inputs: Mapping[str, Value], opset: int
) -> list[onnx.TypeProto | None]:
    types, data = {}, {}
    for name, value in inputs.items():
        message = onnx.TypeProto()
        if value.type is not None:
            ir.serde.serialize_type_into(message, value.type)
        if value.shape is not None:
            ir.serde.serialize_shape_into(message, value.shape)
        types[name] = message
        if value.const_value is not None and value.const_value.size <= MAX_CONSTANT_ELEMENTS:
            array = get_constant(value)
            if array is not None:
                data[name] = ir.serde.serialize_tensor(value.const_value)
    try:
        found = onnx.shape_inference.infer_node_outputs(
            onnx.defs.get_schema(node.op_type, opset),
            ir.serde.serialize_node(node),
            types,
            data,
            opset_imports=[onnx.helper.make_opsetid("", opset)],
        )
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError):
        # The final inference over the whole model reports the error.
        return [None] * len(node.outputs)
    return [found.get(str(v.name)) for v in node.outputs]


def refine_shape(value: Value, new: ir.Shape | None) -> None:
    """Merge a shape into the value's shape: numbers replace names, and both replace unknown dimensions."""
    old = value.shape
    if new is None or (old is not None and len(old) != len(new)):
        return
    if old is None:
        value.shape = new
        return
    pairs = zip(old, new, strict=True)
    value.shape = ir.Shape(
        [b if _rank_specificity(b) > _rank_specificity(a) else a for a, b in pairs]
    )


def _rank_specificity(size: int | ir.SymbolicDim) -> int:
    if isinstance(size, int):
        return 3 if size >= 0 else 0
    if size.value is None:
        return 0
    # Shape inference names dimensions unk__…; other names are the model's own.
    return 1 if size.value.startswith("unk__") else 2
