"""Which arithmetic in pieces is a Softmax or a LogSoftmax (opset 13)?

    e / sum(e), e = exp(c),   c − log(sum(exp(c))),   c = x − max(x) or x itself

over one axis. By its name it is known as what presses scores into probabilities, whose order counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptq.core.wording import counted
from ptq.model.graph import Graph
from ptq.model.node import FLOAT_TYPES, Node, Value, dtype_of, name_of, operator
from ptq.rewrite.edit import replace
from ptq.rewrite.match import inputs_of, maker, occurrences, reduced

SINCE = 13


@dataclass(frozen=True, eq=False)
class Pressed:
    """A node that puts out a Softmax or LogSoftmax of x."""

    node: Node
    op: str
    x: Value
    axis: int


def name_softmaxes(graph: Graph) -> tuple[Graph, list[str]]:
    """Put Softmax and LogSoftmax in the place of their pieces, raising the opset to 13 where there are some.

    Returns:
        The graph, and one sentence for each kind of change. Where ONNX's converter cannot raise the opset
        the pieces stay.
    """
    graph, found, changes = occurrences(graph, SINCE, _found)
    for pieces in found:
        y = pieces.node.outputs[0]
        result = graph.insert(
            pieces.op,
            [pieces.x],
            before=pieces.node,
            attrs={"axis": pieces.axis},
            output=f"{name_of(y)}_named",
            dtype=dtype_of(y),
            shape_like=y,
        )
        replace(graph, pieces.node, result)
    graph.sweep()
    for op in ("Softmax", "LogSoftmax"):
        if count := sum(pieces.op == op for pieces in found):
            changes.append(f"named {counted(count, f'{op} node')}")
    return graph, changes


def _found(graph: Graph) -> list[Pressed]:
    return [p for p in map(_pressed, graph.nodes) if p is not None]


def _pressed(node: Node) -> Pressed | None:
    y = node.outputs[0]
    if operator(node) not in ("Div", "Sub") or dtype_of(y) not in FLOAT_TYPES:
        return None
    parts = inputs_of(y)
    if len(parts) != 2:
        return None
    first, total = parts
    if operator(node) == "Sub":
        if maker(total)[0] != "Log":
            return None
        total = inputs_of(total)[0]
    summed = reduced(total, "ReduceSum")
    if summed is None or maker(summed[0])[0] != "Exp":
        return None
    powers, axis = summed
    exponent = inputs_of(powers)[0]
    if first is not (powers if operator(node) == "Div" else exponent):
        return None
    op = "Softmax" if operator(node) == "Div" else "LogSoftmax"
    return Pressed(node, op, _scores(exponent, axis), axis)


def _scores(value: Value, axis: int) -> Value:
    """The x of x − max(x) over the axis; else the value itself."""
    if maker(value)[0] == "Sub":
        x, most = inputs_of(value)
        if reduced(most, "ReduceMax") == (x, axis):
            return x
    return value
