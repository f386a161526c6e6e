"""Nodes that compute as in training: outputs depend on the other samples of a batch, or on chance."""

from __future__ import annotations

from ptq.model.graph import Graph
from ptq.model.node import Node, attributes_of, constant_of, operator_of


def list_training_nodes(graph: Graph) -> list[Node]:
    """BatchNormalization and Dropout nodes that compute as in training."""
    return [node for node in graph.nodes if _is_in_training(node)]


def _is_in_training(node: Node) -> bool:
    if operator_of(node) == "BatchNormalization":
        return bool(attributes_of(node).get("training_mode", 0))
    mode = constant_of(node.inputs[2]) if len(node.inputs) > 2 else None
    return operator_of(node) == "Dropout" and mode is not None and bool(mode.any())
