"""SiLU, x · sigmoid(x): in float ONNX Runtime computes both operators in one kernel, QuickGelu."""

from __future__ import annotations

from ptq.model.node import Node, consumers_of, operator_of


def is_sigmoid_of_silu(node: Node) -> bool:
    """Whether only a product with its own input reads the Sigmoid."""
    readers = consumers_of(node.outputs[0]) if operator_of(node) == "Sigmoid" else []
    return (
        len(readers) == 1
        and operator_of(readers[0]) == "Mul"
        and node.inputs[0] in readers[0].inputs
        and not node.outputs[0].is_graph_output()
    )
