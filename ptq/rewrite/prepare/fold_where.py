"""A Where that picks elements of computed shapes by a constant condition → Concat of these elements.

Exporters write it before an Expand, with the condition that a size is -1. Folded, the condition is a constant of
booleans, which OpenCV refuses.
"""

from __future__ import annotations

from itertools import groupby

import numpy as np
import onnx_ir as ir

from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    get_attributes,
    get_constant,
    get_dtype,
    get_name,
    get_operator,
    get_shape,
    is_constant,
)
from ptq.rewrite.change import Change
from ptq.rewrite.edit import replace_node
from ptq.rewrite.prepare.shape_inference import MAX_ELEMENTS

Piece = Value | np.int64
"""One element of a shape: a tensor of length 1, or a known number."""


def fold_where(graph: Graph) -> list[Change]:
    """Replace each Where between computed shapes whose condition is constant, in place."""
    folded = 0
    for node in graph.nodes:
        pieces = _pick_pieces(node) if get_operator(node) == "Where" else None
        if pieces is not None and not node.outputs[0].is_graph_output():
            parts = list(_join_constants(graph, pieces, get_name(node.outputs[0])))
            joined = graph.insert(
                "Concat", parts, before=node, attrs={"axis": 0},
                output=f"{get_name(node.outputs[0])}_picked", dtype=np.dtype(np.int64),
            )  # fmt: skip
            joined.shape = ir.Shape([len(pieces)])
            replace_node(graph, node, joined)
            folded += 1
    graph.remove_unused()
    return [Change("fold_where", folded)] if folded else []


def _pick_pieces(node: Node) -> list[Piece] | None:
    """The elements of the result; None if one of them is no piece of its own."""
    condition = get_constant(node.inputs[0])
    if condition is None or condition.ndim > 1 or get_dtype(node.outputs[0]) != np.int64:
        return None
    operands = [_list_pieces(value) for value in node.inputs[1:]]
    lengths = {condition.size, *(len(o) for o in operands if o is not None)}
    length = max(lengths)
    if (
        not lengths <= {1, length}
        or length > MAX_ELEMENTS
        or get_shape(node.outputs[0]) != (length,)
    ):
        return None
    picked: list[Piece] = []
    for position, chosen in enumerate(np.broadcast_to(condition.reshape(-1), length)):
        pieces = operands[0 if chosen else 1]
        if pieces is None:
            return None
        picked.append(pieces[position if len(pieces) > 1 else 0])
    return picked


def _list_pieces(value: Value | None) -> list[Piece] | None:
    """The elements of a vector that is constant, or that a Concat makes of constants and vectors of length 1."""
    if value is None:
        return None
    if is_constant(value):
        array = get_constant(value)
        return None if array is None or array.ndim > 1 else list(array.reshape(-1))
    node = value.producer()
    if (
        node is not None
        and get_operator(node) == "Concat"
        and get_attributes(node).get("axis") in (0, -1)
    ):
        parts = [_list_pieces(part) for part in node.inputs]
        return None if any(p is None for p in parts) else [e for p in parts if p for e in p]
    return [value] if get_shape(value) == (1,) else None


def _join_constants(graph: Graph, pieces: list[Piece], hint: str) -> list[Value]:
    """The pieces, with neighbouring numbers in one constant."""
    parts: list[Value] = []
    for known, run in groupby(pieces, key=lambda piece: isinstance(piece, np.integer)):
        if known:
            parts.append(graph.add_constant(np.array(list(run), np.int64), f"{hint}_sizes"))
        else:
            parts.extend(piece for piece in run if isinstance(piece, Value))
    return parts
