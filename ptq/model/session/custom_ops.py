"""Operators of other domains that ONNX Runtime does not have.

ptq loads no library of custom operators, because that would be foreign code in the process (SECURITY.md).
"""

from __future__ import annotations

from ptq.model.graph import Graph
from ptq.model.node import ONNX_DOMAINS, get_operator

_UNREGISTERED = "is not a registered function/op"
"""ONNX Runtime's words for an operator that it does not have."""


def explain_custom_operator(text: str, graph: Graph) -> str | None:
    """The message for a model with a custom operator; None for any other failure.

    Args:
        text: ONNX Runtime's message.
        graph: The model that does not load.
    """
    if _UNREGISTERED not in text:
        return None
    for node in graph.model.graph.all_nodes():
        if node.domain not in ONNX_DOMAINS and f"{node.domain}:{node.op_type}(" in text:
            return (
                f"ONNX Runtime does not have the custom operator {get_operator(node)} (node {node.name}), and ptq "
                "loads no library of operators; export it as standard operators, or as an ONNX function of them"
            )
    return None
