"""Nodes that draw random numbers: with them, a model computes other outputs on each run.

A seed does not help. ONNX Runtime keeps the state of its generator from run to run, so the numbers depend on the
earlier runs of a session.
"""

from __future__ import annotations

from ptq.model.graph import Graph
from ptq.model.node import Node, constant_of, operator_of

_GENERATORS = frozenset(
    {
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    }
)


def find_random_nodes(graph: Graph) -> list[Node]:
    """All nodes that draw random numbers, those of sub-graphs too, in their order."""
    return [node for node in graph.model.graph.all_nodes() if draws_random_numbers(node)]


def draws_random_numbers(node: Node) -> bool:
    """Whether a node returns other values for the same inputs on each run."""
    if operator_of(node) == "Dropout":
        return may_drop(node)
    return operator_of(node) in _GENERATORS


def may_drop(node: Node) -> bool:
    """Whether a Dropout is, or may be, in training mode with a ratio other than 0; without one, the ratio is 0.5."""
    if len(node.inputs) < 3 or node.inputs[2] is None:
        return False
    given = [constant_of(node.inputs[k]) for k in (1, 2)]
    return all(constant is None or bool(constant.any()) for constant in given)
