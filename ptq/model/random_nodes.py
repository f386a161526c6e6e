"""Nodes that draw random numbers: with them, a model computes other outputs on each run.

A seed does not help. ONNX Runtime keeps the state of its generator from run to run, so the numbers depend on the
earlier runs of a session.
"""

from __future__ import annotations

import onnx_ir as ir

from ptq.model.graph import Graph
from ptq.model.node import Node, get_attributes, get_constant, get_operator


def find_random_nodes(graph: Graph) -> list[Node]:
    """All nodes that draw random numbers for an output of the graph, those of sub-graphs too, in their order."""
    found = [node for node in graph.model.graph.all_nodes() if is_random(node)]
    if not found:
        return []
    used = _find_used_nodes(graph)
    return [node for node in found if node in used]


def _find_used_nodes(graph: Graph) -> set[Node]:
    """The nodes on which an output depends, those of sub-graphs too."""
    used, pending = set[Node](), [*graph.outputs]
    while pending:
        node = pending.pop().producer()
        if node is None or node in used:
            continue
        used.add(node)
        pending += [value for value in node.inputs if value is not None]
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                pending.extend(attribute.as_graph().outputs)
    return used


def is_random(node: Node) -> bool:
    """Whether a node returns other values for the same inputs on each run."""
    match get_operator(node):
        case "Dropout":
            return may_drop(node)
        case "RandomNormal" | "RandomNormalLike":
            return bool(get_attributes(node).get("scale", 1.0) != 0)
        case "RandomUniform" | "RandomUniformLike":
            bounds = get_attributes(node)
            return bool(bounds.get("low", 0.0) != bounds.get("high", 1.0))
        case operator:
            return operator in ("Bernoulli", "Multinomial")


def may_drop(node: Node) -> bool:
    """Whether a Dropout is, or may be, in training mode with a ratio other than 0; without one, the ratio is 0.5."""
    if len(node.inputs) < 3 or node.inputs[2] is None:
        return False
    given = [get_constant(node.inputs[k]) for k in (1, 2)]
    return all(constant is None or bool(constant.any()) for constant in given)
