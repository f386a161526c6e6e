"""Nodes that normalize by the batch, as in training: outputs depend on the other samples of a batch."""

from __future__ import annotations

from ptq.model.graph import Graph
from ptq.model.node import Node, get_attributes, get_operator


def list_training_nodes(graph: Graph) -> list[Node]:
    """BatchNormalization nodes in training mode."""
    return [
        node
        for node in graph.nodes
        if get_operator(node) == "BatchNormalization"
        and get_attributes(node).get("training_mode", 0)
    ]
