"""Sums and products of inputs of the model with constants, such as the mean and deviation of pixels: they stay float.

The quantizer stands behind them as well as before them, so that integers save none. One kernel in float computes
such a node in less time than ONNX Runtime's integers, which take up to 28 ns for each value where constants differ by
channel and channels come last: 0.34 ms for 3 × 64 × 64 pixels (ONNX Runtime 1.32, AVX512 with VNNI). In float they
are exact, too.
"""

from __future__ import annotations

from ptq.model.graph import Graph
from ptq.model.node import (
    ARITHMETIC_OPS,
    Node,
    Value,
    get_name,
    get_node_name,
    get_operator,
    get_spec,
    is_constant,
    list_consumers,
)


def find_input_arithmetic(graph: Graph) -> set[str]:
    """Names of the nodes that compute an input of the model with constants, in a chain that nothing else reads."""
    behind = set[str]()
    found = set[str]()
    for node in graph.nodes:
        values = [v for v in node.inputs if v is not None and not is_constant(v)]
        if len(values) != 1 or not _is_of_input(values[0], behind):
            continue
        if get_operator(node) in ARITHMETIC_OPS:
            found.add(get_node_name(node))
        elif not _is_data_movement(node):
            continue
        behind.update(map(get_name, node.outputs))
    return found


def _is_of_input(value: Value, behind: set[str]) -> bool:
    is_read_once = len(list_consumers(value)) == 1 and not value.is_graph_output()
    return is_read_once and (value.is_graph_input() or get_name(value) in behind)


def _is_data_movement(node: Node) -> bool:
    spec = get_spec(node)
    return get_operator(node) == "Cast" or (spec is not None and spec.moves_integers)
