"""Which version of ONNX's operators can carry Q/DQ pairs, and how does an older model get there?"""

from __future__ import annotations

from collections.abc import Set

import numpy as np
import onnx

from ptq.core.errors import ModelError
from ptq.model.graph import Graph
from ptq.model.node import Node, attributes, dtype_of, name_of, operator, shape_of
from ptq.rewrite.edit import replace, set_attributes

NEEDED = 13
"""QuantizeLinear and DequantizeLinear take an axis from here on."""
WANTED = 17
"""LayerNormalization is one node from here on, and every runtime of the last years reads it."""
NEEDED_IR = 8
"""The format that came with opset 17."""
SOFTMAX = ("Softmax", "LogSoftmax", "Hardmax")
ASIDE = "ptq.aside"


def raise_opset(graph: Graph) -> tuple[Graph, list[str]]:
    """The same model in opset 17 if it is older than 13; as it is otherwise.

    Softmax, LogSoftmax and Hardmax changed their meaning in opset 13, but not along the last axis:
    there they are kept out of the conversion, which would take them apart.

    Returns:
        The graph, and one sentence if it changed.

    Raises:
        ModelError: ONNX's converter has no rule for one of the operators, or a wrong one.
    """
    if graph.opset >= NEEDED:
        return graph, []
    batched = [
        n for n in graph.model.graph.all_nodes() if graph.opset < 9 and operator(n) == "Scan"
    ]
    if batched:
        raise ModelError(
            f"Scan {batched[0].name} of opset {graph.opset} has a batch, which later ones lack; "
            "export opset 9 or newer"
        )
    kept = {str(node.name) for node in graph.with_shapes().nodes if _same_in_both(node)}
    # the converter takes Softmax and LogSoftmax apart, and leaves Hardmax with its new meaning
    parted = {
        node.name: attributes(node).get("axis", 1)
        for node in graph.nodes
        if operator(node) == "Hardmax" and node.name not in kept
    }
    aside = graph.rebuilt(lambda proto: _set_aside(proto, kept))
    try:
        raised = aside.with_opset(WANTED)
    except ModelError:
        raised = aside.with_opset(NEEDED)
    for node in raised.nodes:
        if node.domain == ASIDE:
            node.domain = ""
            set_attributes(node, axis=-1)
        elif operator(node) == "Hardmax" and node.name in parted:
            _take_apart(raised, node, parted[node.name])
    raised.sweep()
    return raised, [f"raised the opset from {graph.opset} to {raised.opset}"]


def _same_in_both(node: Node) -> bool:
    """Whether it is a Softmax over the last axis, where old and new semantics coincide."""
    if operator(node) not in SOFTMAX or node.inputs[0] is None:
        return False
    shape = shape_of(node.inputs[0])
    return shape is not None and attributes(node).get("axis", 1) in (-1, len(shape) - 1)


def _take_apart(graph: Graph, node: Node, axis: int) -> None:
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
    replace(
        graph,
        node,
        graph.insert("Reshape", [rows, shape], before=node, output=f"{name}_whole", dtype=dtype),
    )


def _set_aside(proto: onnx.ModelProto, names: Set[str]) -> onnx.ModelProto:
    """Put nodes into a domain that the converter does not touch, and raise the format's version."""
    proto.ir_version = max(proto.ir_version, NEEDED_IR)
    chosen = [node for node in proto.graph.node if node.name in names]
    for node in chosen:
        node.domain = ASIDE
    if chosen:
        proto.opset_import.append(onnx.helper.make_opsetid(ASIDE, 1))
    return proto
