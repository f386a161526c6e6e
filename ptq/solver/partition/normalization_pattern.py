"""The nodes of normalizations that are written in several operators; 8 bits do not hold their moments.

A variance has the range of a square. Where most channels are small and one is not, most variances share the lowest
LSB, and a reciprocal square root amplifies the error. So a normalization in several operators, along any axes, stays
float as a whole:

* its statistics: a mean, a sum or a norm, the square root above it, and the nodes between them;
* the squares and differences that only these statistics read;
* the operators that combine a statistic with its tensor, and the constants that then scale and shift the result.
"""

from __future__ import annotations

from collections.abc import Set

from ptq.model.graph import Graph
from ptq.model.node import (
    ARITHMETIC_OPS,
    Node,
    get_constant,
    get_node_name,
    get_operator,
    is_constant,
    list_producers,
    list_readers,
)

_REDUCTIONS = frozenset(
    ["GlobalAveragePool", "ReduceL2", "ReduceMean", "ReduceSum", "ReduceSumSquare"]
)
_STATISTICS_OPS = ARITHMETIC_OPS | {
    *("Clip", "Expand", "Identity", "Max", "Neg", "Pow", "Reciprocal"),
    *("Reshape", "Sqrt", "Squeeze", "Unsqueeze"),
}


def find_normalization_nodes(graph: Graph) -> frozenset[str]:
    """The names of all nodes that are pieces of a normalization; normalization operators themselves are not."""
    statistics = _find_statistics_nodes(graph)
    found = set(statistics)
    # graph order: the readers of a statistic come after it
    for node in graph.nodes:
        made = [maker for maker in list_producers(node) if maker in found]
        if not made or node in found or get_operator(node) not in _STATISTICS_OPS:
            continue
        if any(maker in statistics for maker in made):
            found.add(node)
            variable = [value for value in node.inputs if not is_constant(value)]
            if all(value is None or value.producer() in statistics for value in variable):
                statistics.add(node)
        elif get_operator(node) in ARITHMETIC_OPS and any(is_constant(v) for v in node.inputs):
            found.add(node)
    for node in reversed(graph.nodes):
        if node not in found and _is_reduction_or_square(node) and _is_read_only_by(node, found):
            found.add(node)
    return frozenset(get_node_name(node) for node in found)


def _is_root(node: Node) -> bool:
    """Whether the node is a square root, or a norm that contains one."""
    if get_operator(node) == "Pow":
        exponent = get_constant(node.inputs[1])
        return exponent is not None and exponent.size == 1 and abs(float(exponent.item())) == 0.5
    return get_operator(node) in ("ReduceL2", "Sqrt")


def _find_statistics_nodes(graph: Graph) -> set[Node]:
    """The nodes on the paths from reductions to square roots, both ends included."""
    behind_reductions: set[Node] = set()
    for node in graph.nodes:
        op = get_operator(node)
        follows = any(maker in behind_reductions for maker in list_producers(node))
        if op in _REDUCTIONS or (op in _STATISTICS_OPS and follows):
            behind_reductions.add(node)
    on_path: set[Node] = set()
    before_roots: set[Node] = set()
    for node in reversed(graph.nodes):
        if node not in behind_reductions or not (_is_root(node) or node in before_roots):
            continue
        on_path.add(node)
        if get_operator(node) not in _REDUCTIONS:
            before_roots.update(list_producers(node))
    return on_path


def _is_reduction_or_square(node: Node) -> bool:
    """Whether the node is a reduction, a difference, a square or a magnitude."""
    if get_operator(node) == "Mul":
        return node.inputs[0] is node.inputs[1]
    return get_operator(node) in _REDUCTIONS | {"Abs", "Pow", "Sub"}


def _is_read_only_by(node: Node, readers: Set[Node]) -> bool:
    """Whether only the given nodes read the node's outputs."""
    return not any(value.is_graph_output() for value in node.outputs) and all(
        reader in readers for reader in list_readers(node)
    )
