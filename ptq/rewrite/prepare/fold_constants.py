"""Constant folding, of weights and of static shapes.

One walk over the nodes in their order. A node with constant inputs is evaluated. For other nodes, the output's shape
is inferred from the results of the walk so far, and shape arithmetic is followed element by element.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx_ir as ir

from ptq.model.graph import Graph
from ptq.model.node import Node, get_dtype, get_operator
from ptq.rewrite.change import Change
from ptq.rewrite.edit import replace_with_constant
from ptq.rewrite.prepare.check_nodes import check_node
from ptq.rewrite.prepare.evaluate_node import evaluate_node
from ptq.rewrite.prepare.fold_shape_arithmetic import (
    fold_reshape,
    infer_expand_shape,
    is_identity_expand,
)
from ptq.rewrite.prepare.node_shapes import refine_node_shapes, refine_shape
from ptq.rewrite.prepare.remove_no_ops import is_no_op
from ptq.rewrite.prepare.shape_inference import ShapeValues


def fold_constants(graph: Graph) -> list[Change]:
    """Replace constant tensors and static shapes by initializers, in place.

    Raises:
        ModelError: A node has an invalid constant or attribute.
    """
    values, folded = ShapeValues(), Counter[str]()
    for node in graph.nodes:
        check_node(node)
        _name_type_of_cast_like(node)
        results = evaluate_node(node, graph.opset)
        if results is not None:
            named = [v for v in node.outputs if v.name]
            for value, array in zip(named, results, strict=True):
                replace_with_constant(graph, value, array)
            folded["fold_constants"] += 1
            continue
        x = node.inputs[0] if node.inputs else None
        if x is not None and is_no_op(node, x):
            # Shape inference loses symbols in a Slice.
            refine_shape(node.outputs[0], x.shape)
        refine_node_shapes(node, graph.opset)
        folded[_fold_shape(graph, node, values)] += 1
    graph.remove_unused()
    kinds = ("fold_constants", "fold_static_shapes", "fold_reshape_target", "remove_no_ops")
    return [
        Change(kind, folded[kind], old="Expand" if kind == "remove_no_ops" else "")
        for kind in kinds
        if folded[kind]
    ]


def _name_type_of_cast_like(node: Node) -> None:
    """Turn a CastLike to a known type into a Cast, in place: it reads no value of its second operand."""
    like = node.inputs[1] if get_operator(node) == "CastLike" else None
    if like is None or like.dtype is None:
        return
    node.op_type = "Cast"
    node.attributes["to"] = ir.AttrInt64("to", like.dtype.value)
    node.resize_inputs(1)


def _fold_shape(graph: Graph, node: Node, values: ShapeValues) -> str:
    """Fold one node that static shapes determine; the kind of the change, or nothing."""
    output = node.outputs[0]
    elements = values.visit(node)
    if elements is not None and all(isinstance(e, int) for e in elements.reshape(-1)):
        dtype = get_dtype(output)
        if dtype is not None and not output.is_graph_output():
            replace_with_constant(
                graph, output, np.array(elements.tolist(), dtype).reshape(elements.shape)
            )
            return "fold_static_shapes"
    if elements is not None and not output.is_graph_output():
        for x in node.inputs:
            if x is not None and x.dtype == output.dtype and values.is_equal(x, output):
                graph.substitute(output, x)
                return "fold_static_shapes"
    match get_operator(node):
        case "Reshape" if fold_reshape(graph, node, values):
            return "fold_reshape_target"
        case "Expand" if is_identity_expand(node, values) and not output.is_graph_output():
            assert node.inputs[0] is not None
            graph.substitute(output, node.inputs[0])
            return "remove_no_ops"
        case "Expand":
            infer_expand_shape(node, values)
    return ""
