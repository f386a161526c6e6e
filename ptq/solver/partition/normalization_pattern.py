"""Which nodes are pieces of a normalization, whose moments 8 bits do not hold?

A variance has the range of a square: where most channels are small and one is not, most variances share the
lowest steps, and a reciprocal root amplifies what is left. So a normalization in pieces, along whatever axes,
stays float as a whole:

* its statistics: a mean, a sum or a norm, the square root above it and what stands between them;
* what is squared or centred for them alone;
* what joins them with the tensor that they are of, and the constants that then scale and shift it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ptq.model.graph import Graph
from ptq.model.node import Node, constant_of, consumers_of, operator_of

_REDUCTIONS = frozenset(["ReduceL2", "ReduceMean", "ReduceSum", "ReduceSumSquare"])
_ARITHMETIC = frozenset(["Add", "Div", "Mul", "Sub"])
_STATISTICS_OPS = _ARITHMETIC | {
    *("Clip", "Expand", "Identity", "Max", "Neg", "Pow", "Reciprocal"),
    *("Reshape", "Sqrt", "Squeeze", "Unsqueeze"),
}


def normalization_nodes(graph: Graph) -> frozenset[str]:
    """The names of the nodes that are pieces of a normalization; those with operators of their own are none."""
    found: dict[Node, None] = {}
    for node in graph.nodes:
        if _is_root(node):
            found.update(dict.fromkeys(_statistics_nodes(node)))
    statistics = set(found)
    for node in graph.nodes:  # in order: what reads a statistic comes after it
        made = [maker for maker in _producers(node) if maker in found]
        if not made or node in found or operator_of(node) not in _STATISTICS_OPS:
            continue
        if any(maker in statistics for maker in made):
            found[node] = None
            reals = [value for value in node.inputs if constant_of(value) is None]
            if all(value is None or value.producer() in statistics for value in reals):
                statistics.add(node)
        elif operator_of(node) in _ARITHMETIC and any(
            constant_of(v) is not None for v in node.inputs
        ):
            found[node] = None
    for node in reversed(graph.nodes):
        if node not in found and _is_reduction_or_square(node) and _is_read_only_by(node, found):
            found[node] = None
    return frozenset(node.name or "" for node in found)


def _is_root(node: Node) -> bool:
    """Whether it is a square root, or a norm that holds one."""
    if operator_of(node) == "Pow":
        exponent = constant_of(node.inputs[1])
        return exponent is not None and exponent.size == 1 and abs(float(exponent.item())) == 0.5
    return operator_of(node) in ("ReduceL2", "Sqrt")


def _statistics_nodes(root: Node) -> list[Node]:
    """The nodes between the reductions that a square root is of and the root, these included."""
    way: dict[Node, bool] = {}

    def leads(node: Node) -> bool:
        if node not in way:
            way[node] = operator_of(node) in _REDUCTIONS
            if not way[node] and operator_of(node) in _STATISTICS_OPS:
                makers = [leads(maker) for maker in _producers(node)]  # all of them, for the way
                way[node] = any(makers)
        return way[node]

    leads(root)
    return [node for node, is_on in way.items() if is_on]


def _is_reduction_or_square(node: Node) -> bool:
    """Whether it is a reduction, a difference or a square."""
    if operator_of(node) == "Mul":
        return node.inputs[0] is node.inputs[1]
    return operator_of(node) in _REDUCTIONS | {"Abs", "Pow", "Sub"}


def _is_read_only_by(node: Node, readers: dict[Node, None]) -> bool:
    """Whether all that reads its outputs is among them."""
    return not any(value.is_graph_output() for value in node.outputs) and all(
        reader in readers for value in node.outputs for reader in consumers_of(value)
    )


def _producers(node: Node) -> Iterator[Node]:
    for value in node.inputs:
        maker = value.producer() if value is not None else None
        if maker is not None:
            yield maker
