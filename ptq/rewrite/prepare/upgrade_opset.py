"""Which version of ONNX's operators can carry Q/DQ pairs, and how does an older model get there?"""

from __future__ import annotations

from collections.abc import Set

import numpy as np
import onnx

from ptq.core.errors import ModelError
from ptq.model.graph import Graph
from ptq.model.node import Node, attributes_of, dtype_of, name_of, operator_of, shape_of
from ptq.rewrite.edit import replace_node, set_attributes

MIN_QDQ_OPSET = 13
"""QuantizeLinear and DequantizeLinear take an axis from here on."""
TARGET_OPSET = 17
"""LayerNormalization is one node from here on, and every runtime of the last years reads it."""
TARGET_IR_VERSION = 8
"""The format that came with opset 17."""
SOFTMAX_OPS = ("Softmax", "LogSoftmax", "Hardmax")
EXEMPT_DOMAIN = "ptq.aside"


def upgrade_opset(graph: Graph) -> tuple[Graph, list[str]]:
    """The same model in opset 17 if it is older than 13; as it is otherwise.

    Softmax, LogSoftmax and Hardmax changed their meaning in opset 13, but not along the last axis:
    there they are kept out of the conversion, which would take them apart.

    Returns:
        The graph, and one sentence if it changed.

    Raises:
        ModelError: ONNX's converter has no rule for one of the operators, or a wrong one.
    """
    if graph.opset >= MIN_QDQ_OPSET:
        return graph, []
    batched = [
        n for n in graph.model.graph.all_nodes() if graph.opset < 9 and operator_of(n) == "Scan"
    ]
    if batched:
        raise ModelError(
            f"Scan {batched[0].name} of opset {graph.opset} has a batch, which later ones lack; "
            "export opset 9 or newer"
        )
    kept = {str(node.name) for node in graph.with_shapes().nodes if _is_unchanged_softmax(node)}
    # the converter takes Softmax and LogSoftmax apart, and leaves Hardmax with its new meaning
    parted = {
        node.name: attributes_of(node).get("axis", 1)
        for node in graph.nodes
        if operator_of(node) == "Hardmax" and node.name not in kept
    }
    aside = graph.transform_proto(lambda proto: _exempt_nodes(proto, kept))
    try:
        raised = aside.with_opset(TARGET_OPSET)
    except ModelError:
        raised = aside.with_opset(MIN_QDQ_OPSET)
    for node in raised.nodes:
        if node.domain == EXEMPT_DOMAIN:
            node.domain = ""
            set_attributes(node, axis=-1)
        elif operator_of(node) == "Hardmax" and node.name in parted:
            _flatten_hardmax(raised, node, parted[node.name])
    raised.remove_unused()
    return raised, [f"raised the opset from {graph.opset} to {raised.opset}"]


def _is_unchanged_softmax(node: Node) -> bool:
    """Whether it is a Softmax over the last axis, where old and new semantics coincide."""
    if operator_of(node) not in SOFTMAX_OPS or node.inputs[0] is None:
        return False
    shape = shape_of(node.inputs[0])
    return shape is not None and attributes_of(node).get("axis", 1) in (-1, len(shape) - 1)


def _flatten_hardmax(graph: Graph, node: Node, axis: int) -> None:
    """A Hardmax over all axes from one on, as one over the last axis of a matrix."""
    x, y = node.inputs[0], node.outputs[0]
    name, dtype = name_of(y), dtype_of(y)
    assert x is not None
    shape = graph.insert(
        "Shape", [x], before=node, output=f"{name}_shape", dtype=np.dtype(np.int64)
    )
    matrix = graph.insert(
        "Flatten", [x], before=node, attrs={"axis": axis}, output=f"{name}_matrix", dtype=dtype
    )
    rows = graph.insert(
        "Hardmax", [matrix], before=node, attrs={"axis": -1}, output=f"{name}_rows", dtype=dtype
    )
    replace_node(
        graph,
        node,
        graph.insert("Reshape", [rows, shape], before=node, output=f"{name}_whole", dtype=dtype),
    )


def _exempt_nodes(proto: onnx.ModelProto, names: Set[str]) -> onnx.ModelProto:
    """Put nodes into a domain that the converter does not touch, and raise the format's version."""
    proto.ir_version = max(proto.ir_version, TARGET_IR_VERSION)
    chosen = [node for node in proto.graph.node if node.name in names]
    for node in chosen:
        node.domain = EXEMPT_DOMAIN
    if chosen:
        proto.opset_import.append(onnx.helper.make_opsetid(EXEMPT_DOMAIN, 1))
    return proto
