"""Which arithmetic in pieces is a LayerNormalization (opset 17)?

    c / sqrt(mean(c²) + eps) [· gamma [+ beta]],   c = x − mean(x)

over the last axis. In pieces a variance, whose range is that of a square, would pass through 8 bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptq.core.wording import plural
from ptq.model.graph import Graph
from ptq.model.node import (
    FLOAT_TYPES,
    Node,
    Value,
    constant_of,
    consumers_of,
    dtype_of,
    name_of,
    operator_of,
    shape_of,
)
from ptq.rewrite.edit import replace_node
from ptq.rewrite.match import (
    find_occurrences,
    is_close,
    match_reduction,
    producer_inputs,
    producer_op,
    scalar_constant,
)

MIN_OPSET = 17


@dataclass(frozen=True, eq=False)
class LayerNormPattern:
    """A node that puts out c / sqrt(mean(c²) + eps)."""

    node: Node
    x: Value
    size: int
    epsilon: float


def fuse_layer_norm(graph: Graph) -> tuple[Graph, list[str]]:
    """Put LayerNormalization in the place of its pieces, raising the opset to 17 where there are some.

    Returns:
        The graph, and one sentence for each kind of change. Where ONNX's converter cannot raise the opset
        the pieces stay.
    """
    graph, found, changes = find_occurrences(graph, MIN_OPSET, _find_layer_norms)
    for pieces in found:
        _insert_layer_norm(graph, pieces)
    graph.remove_unused()
    if found:
        changes.append(f"named {plural(len(found), 'LayerNormalization node')}")
    return graph, changes


def _insert_layer_norm(graph: Graph, pieces: LayerNormPattern) -> None:
    last, dtype = pieces.node, dtype_of(pieces.x)
    gamma, last = _trailing_constant(last, "Mul", pieces.size)
    beta, last = _trailing_constant(last, "Add", pieces.size) if gamma is not None else (None, last)
    y = last.outputs[0]
    name = name_of(y)
    if gamma is None:
        gamma = graph.add_constant(np.ones(pieces.size, dtype), f"{name}_scale")
    result = graph.insert(
        "LayerNormalization",
        [pieces.x, gamma] if beta is None else [pieces.x, gamma, beta],
        before=last,
        attrs={"axis": -1, "epsilon": pieces.epsilon},
        output=f"{name}_named",
        dtype=dtype,
        shape_like=y,
    )
    replace_node(graph, last, result)


def _trailing_constant(node: Node, op: str, size: int) -> tuple[Value | None, Node]:
    """The constant along the last axis that the only reader combines the node's output with, and that reader."""
    y = node.outputs[0]
    readers = [] if y.is_graph_output() else consumers_of(y)
    if len(readers) == 1 and operator_of(readers[0]) == op and readers[0].graph is node.graph:
        for value in readers[0].inputs:
            array = constant_of(value)
            if array is not None and array.shape == (size,):
                return value, readers[0]
    return None, node


def _find_layer_norms(graph: Graph) -> list[LayerNormPattern]:
    return [s for s in map(_match_layer_norm, graph.nodes) if s is not None]


def _match_layer_norm(node: Node) -> LayerNormPattern | None:
    y = node.outputs[0]
    if operator_of(node) != "Div" or dtype_of(y) not in FLOAT_TYPES or len(node.inputs) != 2:
        return None
    centred, root = producer_inputs(y) if len(producer_inputs(y)) == 2 else (y, y)
    x = _match_centred(centred)
    if x is None or producer_op(root)[0] != "Sqrt":
        return None
    shape = shape_of(x)
    total = producer_inputs(root)[0]
    if producer_op(total)[0] != "Add" or shape is None or shape[-1] is None:
        return None
    for variance, added in (producer_inputs(total), producer_inputs(total)[::-1]):
        epsilon = scalar_constant(added)
        if epsilon is not None and epsilon > 0 and _is_variance(variance, x):
            return LayerNormPattern(node, x, shape[-1], epsilon)
    return None


def _match_centred(value: Value) -> Value | None:
    """The x of x − mean(x)."""
    if producer_op(value)[0] != "Sub":
        return None
    x, mean = producer_inputs(value)
    return x if _match_mean(mean) is x else None


def _is_variance(value: Value, x: Value) -> bool:
    """Whether it is mean((x − mean(x))²); exporters write the difference once or twice."""
    square = _match_mean(value)
    if square is None:
        return False
    op, operands = producer_op(square)[0], producer_inputs(square)
    if op == "Pow":
        return is_close(scalar_constant(operands[1]), 2.0) and _match_centred(operands[0]) is x
    return op == "Mul" and operands[0] is operands[1] and _match_centred(operands[0]) is x


def _match_mean(value: Value) -> Value | None:
    """What the value is the mean of over the last axis, that axis being kept."""
    found = match_reduction(value, "ReduceMean")
    if found is None:
        return None
    x, axis = found
    return x if axis == len(shape_of(x) or ()) - 1 else None
