"""Sub, Pow, ReduceMean, Sqrt, Div → LayerNormalization (opset 17).

    c / sqrt(mean(c²) + eps) [· gamma [+ beta]],   c = x − mean(x)

over the last axis. The separate operators would quantize a variance, whose range is that of a square, to 8 bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
from ptq.rewrite.change import Change
from ptq.rewrite.edit import replace_node
from ptq.rewrite.match import (
    is_close,
    match_reduction,
    outputs_between,
    producer_inputs,
    producer_op,
    scalar_constant,
)
from ptq.rewrite.prepare.upgrade_opset import opset_too_old, try_upgrade_opset

MIN_OPSET = 17
_KIND, _OP = "fuse_layer_norm", "LayerNormalization"


@dataclass(frozen=True, eq=False)
class LayerNormPattern:
    """A node that computes c / sqrt(mean(c²) + eps).

    Attributes:
        node: The Div.
        x: The tensor to normalize.
        size: Length of its last axis.
        epsilon: The eps of the equation.
    """

    node: Node
    x: Value
    size: int
    epsilon: float


def fuse_layer_norm(graph: Graph, *, keep_opset: bool = False) -> list[Change]:
    """Replace the operators of a layer normalization by LayerNormalization, in place; raises the opset to 17.

    Declines if ONNX's converter cannot raise the opset, or if ``keep_opset`` is set and it would have to.
    """
    matches = _find_layer_norms(graph)
    changes = try_upgrade_opset(graph, MIN_OPSET if matches else 0, keep=keep_opset)
    patterns = _find_layer_norms(graph) if graph.opset >= MIN_OPSET else []
    for pattern in patterns:
        _insert_layer_norm(graph, pattern)
    graph.remove_unused()
    if patterns:
        changes.append(Change(_KIND, len(patterns), new=_OP))
    elif matches and graph.opset < MIN_OPSET:
        reason = opset_too_old(graph, MIN_OPSET, keep=keep_opset)
        pieces = [name for m in matches for name in outputs_between(m.x, m.node)]
        stay = tuple(pieces) if keep_opset else ()
        changes.append(Change(_KIND, len(matches), new=_OP, declined=reason, stay_float=stay))
    return changes


def _insert_layer_norm(graph: Graph, pattern: LayerNormPattern) -> None:
    last, dtype = pattern.node, dtype_of(pattern.x)
    gamma, last = _trailing_constant(last, "Mul", pattern.size)
    beta, last = (
        _trailing_constant(last, "Add", pattern.size) if gamma is not None else (None, last)
    )
    y = last.outputs[0]
    name = name_of(y)
    if gamma is None:
        gamma = graph.add_constant(np.ones(pattern.size, dtype), f"{name}_scale")
    result = graph.insert(
        _OP,
        [pattern.x, gamma] if beta is None else [pattern.x, gamma, beta],
        before=last,
        attrs={"axis": -1, "epsilon": pattern.epsilon},
        output=f"{name}_named",
        dtype=dtype,
        shape_like=y,
    )
    replace_node(graph, last, result)


def _trailing_constant(node: Node, op: str, size: int) -> tuple[Value | None, Node]:
    """The constant along the last axis that the only reader combines with the node's output, and that reader.

    None and the node itself if there is none.
    """
    y = node.outputs[0]
    readers = [] if y.is_graph_output() else consumers_of(y)
    if len(readers) == 1 and operator_of(readers[0]) == op and readers[0].graph is node.graph:
        for value in readers[0].inputs:
            array = constant_of(value)
            if array is not None and array.shape == (size,):
                return value, readers[0]
    return None, node


def _find_layer_norms(graph: Graph) -> list[LayerNormPattern]:
    return [pattern for pattern in map(_match_layer_norm, graph.nodes) if pattern is not None]


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
    for variance, summand in (producer_inputs(total), producer_inputs(total)[::-1]):
        epsilon = scalar_constant(summand)
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
    """Whether the value is mean((x − mean(x))²); exporters write the difference once or twice."""
    square = _match_mean(value)
    if square is None:
        return False
    op, operands = producer_op(square)[0], producer_inputs(square)
    if op == "Pow":
        return is_close(scalar_constant(operands[1]), 2.0) and _match_centred(operands[0]) is x
    return op == "Mul" and operands[0] is operands[1] and _match_centred(operands[0]) is x


def _match_mean(value: Value) -> Value | None:
    """The tensor of a mean over the last axis that keeps this axis."""
    found = match_reduction(value, "ReduceMean")
    if found is None:
        return None
    x, axis = found
    return x if axis == len(shape_of(x) or ()) - 1 else None
