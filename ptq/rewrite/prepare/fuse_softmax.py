"""Exp, ReduceSum, Div → Softmax, and Exp, ReduceSum, Log, Sub → LogSoftmax (opset 13).

    e / sum(e), e = exp(c),   c − log(sum(exp(c))),   c = x − max(x) or c = x

over one axis. Only the named operator is recognized as a map from scores to probabilities, whose order matters.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptq.model.graph import Graph
from ptq.model.node import FLOAT_TYPES, Node, Value, get_dtype, get_name, get_operator
from ptq.rewrite.change import Change
from ptq.rewrite.edit import replace_node
from ptq.rewrite.match import get_producer_op, list_producer_inputs, match_reduction
from ptq.rewrite.prepare.upgrade_opset import explain_old_opset, try_upgrade_opset

MIN_OPSET = 13
_KIND = "fuse_softmax"


@dataclass(frozen=True, eq=False)
class SoftmaxPattern:
    """A node that computes a Softmax or LogSoftmax.

    Attributes:
        node: The last operator of the pattern.
        op: Softmax or LogSoftmax.
        x: Its input.
        axis: Its axis.
    """

    node: Node
    op: str
    x: Value
    axis: int


def fuse_softmax(graph: Graph, *, keep_opset: bool = False) -> list[Change]:
    """Replace the operators of a softmax by Softmax or LogSoftmax, in place; raises the opset to 13.

    Declines if ONNX's converter cannot raise the opset, or if ``keep_opset`` is set and it would have to.
    """
    matches = _find_softmaxes(graph)
    changes = try_upgrade_opset(graph, MIN_OPSET if matches else 0, keep=keep_opset)
    patterns = _find_softmaxes(graph) if graph.opset >= MIN_OPSET else []
    for pattern in patterns:
        y = pattern.node.outputs[0]
        result = graph.insert(
            pattern.op,
            [pattern.x],
            before=pattern.node,
            attrs={"axis": pattern.axis},
            output=f"{get_name(y)}_named",
            dtype=get_dtype(y),
            shape_like=y,
        )
        replace_node(graph, pattern.node, result)
    graph.remove_unused()
    if graph.opset < MIN_OPSET:
        return changes + _count_patterns(
            matches, explain_old_opset(graph, MIN_OPSET, keep=keep_opset)
        )
    return changes + _count_patterns(patterns)


def _count_patterns(patterns: list[SoftmaxPattern], declined: str = "") -> list[Change]:
    counts = {op: sum(p.op == op for p in patterns) for op in ("Softmax", "LogSoftmax")}
    return [Change(_KIND, n, new=op, declined=declined) for op, n in counts.items() if n]


def _find_softmaxes(graph: Graph) -> list[SoftmaxPattern]:
    return [pattern for pattern in map(_match_softmax, graph.nodes) if pattern is not None]


def _match_softmax(node: Node) -> SoftmaxPattern | None:
    y = node.outputs[0]
    if get_operator(node) not in ("Div", "Sub") or get_dtype(y) not in FLOAT_TYPES:
        return None
    operands = list_producer_inputs(y)
    if len(operands) != 2:
        return None
    first, total = operands
    if get_operator(node) == "Sub":
        if get_producer_op(total)[0] != "Log":
            return None
        total = list_producer_inputs(total)[0]
    summed = match_reduction(total, "ReduceSum")
    if summed is None or get_producer_op(summed[0])[0] != "Exp":
        return None
    powers, axis = summed
    exponent = list_producer_inputs(powers)[0]
    if first is not (powers if get_operator(node) == "Div" else exponent):
        return None
    op = "Softmax" if get_operator(node) == "Div" else "LogSoftmax"
    return SoftmaxPattern(node, op, _find_softmax_input(exponent, axis), axis)


def _find_softmax_input(value: Value, axis: int) -> Value:
    """The x of x − max(x) over the axis; else the value itself."""
    if get_producer_op(value)[0] == "Sub":
        x, greatest = list_producer_inputs(value)
        if match_reduction(greatest, "ReduceMax") == (x, axis):
            return x
    return value
