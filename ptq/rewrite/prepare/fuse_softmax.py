"""Which arithmetic in pieces is a Softmax or a LogSoftmax (opset 13)?

    e / sum(e), e = exp(c),   c − log(sum(exp(c))),   c = x − max(x) or x itself

over one axis. By its name it is known as what presses scores into probabilities, whose order counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptq.core.wording import plural
from ptq.model.graph import Graph
from ptq.model.node import FLOAT_TYPES, Node, Value, dtype_of, name_of, operator_of
from ptq.rewrite.edit import replace_node
from ptq.rewrite.match import find_occurrences, match_reduction, producer_inputs, producer_op

MIN_OPSET = 13


@dataclass(frozen=True, eq=False)
class SoftmaxPattern:
    """A node that puts out a Softmax or LogSoftmax of x."""

    node: Node
    op: str
    x: Value
    axis: int


def fuse_softmax(graph: Graph) -> tuple[Graph, list[str]]:
    """Put Softmax and LogSoftmax in the place of their pieces, raising the opset to 13 where there are some.

    Returns:
        The graph, and one sentence for each kind of change. Where ONNX's converter cannot raise the opset
        the pieces stay.
    """
    graph, found, changes = find_occurrences(graph, MIN_OPSET, _find_softmaxes)
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
        replace_node(graph, pieces.node, result)
    graph.remove_unused()
    for op in ("Softmax", "LogSoftmax"):
        if count := sum(pieces.op == op for pieces in found):
            changes.append(f"named {plural(count, f'{op} node')}")
    return graph, changes


def _find_softmaxes(graph: Graph) -> list[SoftmaxPattern]:
    return [p for p in map(_match_softmax, graph.nodes) if p is not None]


def _match_softmax(node: Node) -> SoftmaxPattern | None:
    y = node.outputs[0]
    if operator_of(node) not in ("Div", "Sub") or dtype_of(y) not in FLOAT_TYPES:
        return None
    parts = producer_inputs(y)
    if len(parts) != 2:
        return None
    first, total = parts
    if operator_of(node) == "Sub":
        if producer_op(total)[0] != "Log":
            return None
        total = producer_inputs(total)[0]
    summed = match_reduction(total, "ReduceSum")
    if summed is None or producer_op(summed[0])[0] != "Exp":
        return None
    powers, axis = summed
    exponent = producer_inputs(powers)[0]
    if first is not (powers if operator_of(node) == "Div" else exponent):
        return None
    op = "Softmax" if operator_of(node) == "Div" else "LogSoftmax"
    return SoftmaxPattern(node, op, _softmax_input(exponent, axis), axis)


def _softmax_input(value: Value, axis: int) -> Value:
    """The x of x − max(x) over the axis; else the value itself."""
    if producer_op(value)[0] == "Sub":
        x, most = producer_inputs(value)
        if match_reduction(most, "ReduceMax") == (x, axis):
            return x
    return value
