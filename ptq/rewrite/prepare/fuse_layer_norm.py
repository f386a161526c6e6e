"""Which arithmetic in pieces is a LayerNormalization (opset 17)?

    c / sqrt(mean(c²) + eps) [· gamma [+ beta]],   c = x − mean(x)

over the last axis. In pieces a variance, whose range is that of a square, would pass through 8 bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptq.core.wording import counted
from ptq.model.graph import Graph
from ptq.model.node import (
    FLOAT_TYPES,
    Node,
    Value,
    constant,
    consumers,
    dtype_of,
    name_of,
    operator,
    shape_of,
)
from ptq.rewrite.edit import replace
from ptq.rewrite.match import inputs_of, maker, near, occurrences, reduced, scalar

SINCE = 17


@dataclass(frozen=True, eq=False)
class Standardized:
    """A node that puts out c / sqrt(mean(c²) + eps)."""

    node: Node
    x: Value
    size: int
    epsilon: float


def name_normalizations(graph: Graph) -> tuple[Graph, list[str]]:
    """Put LayerNormalization in the place of its pieces, raising the opset to 17 where there are some.

    Returns:
        The graph, and one sentence for each kind of change. Where ONNX's converter cannot raise the opset
        the pieces stay.
    """
    graph, found, changes = occurrences(graph, SINCE, _found)
    for pieces in found:
        _name(graph, pieces)
    graph.sweep()
    if found:
        changes.append(f"named {counted(len(found), 'LayerNormalization node')}")
    return graph, changes


def _name(graph: Graph, pieces: Standardized) -> None:
    last, dtype = pieces.node, dtype_of(pieces.x)
    gamma, last = _along(last, "Mul", pieces.size)
    beta, last = _along(last, "Add", pieces.size) if gamma is not None else (None, last)
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
    replace(graph, last, result)


def _along(node: Node, op: str, size: int) -> tuple[Value | None, Node]:
    """The constant along the last axis that the only reader combines the node's output with, and that reader."""
    y = node.outputs[0]
    readers = [] if y.is_graph_output() else consumers(y)
    if len(readers) == 1 and operator(readers[0]) == op and readers[0].graph is node.graph:
        for value in readers[0].inputs:
            array = constant(value)
            if array is not None and array.shape == (size,):
                return value, readers[0]
    return None, node


def _found(graph: Graph) -> list[Standardized]:
    return [s for s in map(_standardized, graph.nodes) if s is not None]


def _standardized(node: Node) -> Standardized | None:
    y = node.outputs[0]
    if operator(node) != "Div" or dtype_of(y) not in FLOAT_TYPES or len(node.inputs) != 2:
        return None
    centred, root = inputs_of(y) if len(inputs_of(y)) == 2 else (y, y)
    x = _centred(centred)
    if x is None or maker(root)[0] != "Sqrt":
        return None
    shape = shape_of(x)
    total = inputs_of(root)[0]
    if maker(total)[0] != "Add" or shape is None or shape[-1] is None:
        return None
    for variance, added in (inputs_of(total), inputs_of(total)[::-1]):
        epsilon = scalar(added)
        if epsilon is not None and epsilon > 0 and _is_variance(variance, x):
            return Standardized(node, x, shape[-1], epsilon)
    return None


def _centred(value: Value) -> Value | None:
    """The x of x − mean(x)."""
    if maker(value)[0] != "Sub":
        return None
    x, mean = inputs_of(value)
    return x if _mean(mean) is x else None


def _is_variance(value: Value, x: Value) -> bool:
    """Whether it is mean((x − mean(x))²); exporters write the difference once or twice."""
    square = _mean(value)
    if square is None:
        return False
    op, operands = maker(square)[0], inputs_of(square)
    if op == "Pow":
        return near(scalar(operands[1]), 2.0) and _centred(operands[0]) is x
    return op == "Mul" and operands[0] is operands[1] and _centred(operands[0]) is x


def _mean(value: Value) -> Value | None:
    """What the value is the mean of over the last axis, that axis being kept."""
    found = reduced(value, "ReduceMean")
    if found is None:
        return None
    x, axis = found
    return x if axis == len(shape_of(x) or ()) - 1 else None
