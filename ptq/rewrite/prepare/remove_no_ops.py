"""Removal of nodes without effect: Identity, Dropout, Cast to the same type, Pad by zero and the like."""

from __future__ import annotations

from collections import Counter

import numpy as np

from ptq.model.graph import Graph
from ptq.model.node import Node, Value, get_attributes, get_constant, get_operator, get_shape
from ptq.model.random_nodes import may_drop
from ptq.rewrite.change import Change
from ptq.rewrite.prepare.shape_inference import get_symbolic_shape

SLICE_TO_END = 10**9
"""Exporters write ends of at least this size for "to the end"; no axis is that long."""


def remove_no_ops(graph: Graph) -> list[Change]:
    """Remove nodes that provably return their input unchanged, in place.

    A node between a graph input (or constant) and a graph output stays, because the user knows both names.
    """
    removed = Counter[str]()
    for node in graph.nodes:
        _drop_neutral_bounds(node)
        x, y = node.inputs[0] if node.inputs else None, node.outputs[0]
        if x is None or not is_no_op(node, x):
            continue
        fixed = x.is_graph_input() or x.is_graph_output() or x.is_initializer()
        if y.is_graph_output() and fixed:
            continue
        graph.substitute(y, x)
        graph.remove(node)
        removed[node.op_type] += 1
    return [Change("remove_no_ops", n, old=op) for op, n in removed.items()]


def remove_unused(graph: Graph) -> list[Change]:
    """Remove nodes and initializers that no output depends on, in place; there is nothing to report."""
    graph.remove_unused()
    return []


def _drop_neutral_bounds(node: Node) -> None:
    """Remove operands −∞ of Max and ∞ of Min: some exporters start reductions from them."""
    neutral = {"Max": -np.inf, "Min": np.inf}.get(get_operator(node))
    if neutral is None:
        return
    arrays = [get_constant(value) for value in node.inputs]
    kept = [
        value
        for value, array in zip(node.inputs, arrays, strict=True)
        if array is None or array.ndim or array != neutral
    ]
    if not kept:
        return
    for position, value in enumerate(kept):
        node.replace_input_with(position, value)
    node.resize_inputs(len(kept))


def is_no_op(node: Node, x: Value) -> bool:
    """Whether the node's first output always equals x, its first input."""
    attrs = get_attributes(node)
    rest = [get_constant(v) for v in node.inputs[1:]]
    match get_operator(node):
        case "Identity":
            return True
        case "Dropout":
            mask_is_read = any(v.uses() or v.is_graph_output() for v in node.outputs[1:])
            return not may_drop(node) and not mask_is_read
        case "Concat" | "Sum" | "Max" | "Min" | "Mean":
            return len(node.inputs) == 1
        case "Cast":
            return x.dtype is not None and x.dtype == attrs["to"]
        case "Transpose":
            perm, shape = attrs.get("perm"), get_shape(x)
            rank = None if shape is None else len(shape)
            return list(perm) == list(range(len(perm))) if perm else rank in (0, 1)
        case "Flatten":
            shape = get_shape(x)
            return shape is not None and len(shape) == 2 and attrs.get("axis", 1) in (1, -1)
        case "Pad":
            return bool(rest) and rest[0] is not None and not rest[0].any()
        case "Slice":
            return _is_full_slice(node, x)
        case "Reshape":
            return _is_same_shape(node, x)
    return False


def _is_full_slice(node: Node, x: Value) -> bool:
    operands = [get_constant(v) for v in node.inputs[1:]]
    shape = get_shape(x)
    if len(operands) < 2 or any(
        array is None and v is not None for array, v in zip(operands, node.inputs[1:], strict=True)
    ):
        return False
    starts, ends = operands[0], operands[1]
    axes = operands[2] if len(operands) > 2 else None
    steps = operands[3] if len(operands) > 3 else None
    if starts is None or ends is None or starts.any() or (steps is not None and np.any(steps != 1)):
        return False
    axes = np.arange(len(ends)) if axes is None else axes
    for axis, end in zip(axes, ends, strict=True):
        size = None if shape is None or axis >= len(shape) else shape[axis]
        if end < (SLICE_TO_END if size is None else size):
            return False
    return True


def _is_same_shape(node: Node, x: Value) -> bool:
    """Whether a Reshape keeps every dimension, or all except one, which −1 then determines."""
    before, after = get_symbolic_shape(x), get_symbolic_shape(node.outputs[0])
    target = get_constant(node.inputs[1])
    if before is None or target is None or len(target) != len(before):
        return False
    if node.attributes.get("allowzero") is not None and get_attributes(node)["allowzero"]:
        return before == after
    fits = [t == 0 or t == b for t, b in zip(target.tolist(), before, strict=True)]
    # The other dimensions determine −1 if none of them is 0.
    unmatched = [t for t, fit in zip(target.tolist(), fits, strict=True) if not fit]
    return not unmatched or unmatched == [-1]
