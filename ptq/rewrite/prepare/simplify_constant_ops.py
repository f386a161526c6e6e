"""Operators with a constant → simpler operators that every runtime computes on integers.

Div by a constant → Mul,   PRelu with one slope → LeakyRelu,   Max or Min with a number → Clip
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ptq.core.opset_changes import CLIP_INPUTS_OPSET
from ptq.model.graph import Graph
from ptq.model.node import (
    FLOAT_TYPES,
    Node,
    Value,
    get_constant,
    get_dtype,
    get_name,
    get_operator,
    get_shape,
    is_constant,
)
from ptq.rewrite.change import Change
from ptq.rewrite.edit import replace_node
from ptq.rewrite.prepare.last_bits import find_deciding_values

_BOUND_OPS = ("Max", "Min")


def simplify_constant_ops(graph: Graph) -> list[Change]:
    """Replace Div, PRelu, Max and Min with one constant by simpler operators, in place.

    A quotient may change in its last bit if the reciprocal is not exact; where that bit can decide, the Div stays.
    """
    deciding = find_deciding_values(graph)
    divisions = [
        node
        for node in graph.nodes
        if get_operator(node) == "Div" and _rewrite_div_to_mul(graph, node, deciding)
    ]
    slopes = [
        node
        for node in graph.nodes
        if get_operator(node) == "PRelu" and _rewrite_prelu_to_leaky_relu(graph, node)
    ]
    bounds = {
        op: [n for n in graph.nodes if get_operator(n) == op and _rewrite_max_min_to_clip(graph, n)]
        for op in _BOUND_OPS
    }
    replaced = (
        ("Div", "Mul", divisions),
        ("PRelu", "LeakyRelu", slopes),
        *((op, "Clip", nodes) for op, nodes in bounds.items()),
    )
    return [
        Change("simplify_constant_ops", len(nodes), old=old, new=new)
        for old, new, nodes in replaced
        if nodes
    ]


def _rewrite_div_to_mul(graph: Graph, node: Node, deciding: Collection[Value]) -> bool:
    x, divisor = node.inputs[0], get_constant(node.inputs[1])
    if x is None or is_constant(x) or divisor is None or divisor.dtype not in FLOAT_TYPES:
        return False
    with np.errstate(all="ignore"):
        inverse = np.reciprocal(divisor.astype(np.float64)).astype(divisor.dtype)
    if not (np.isfinite(inverse) & (np.abs(inverse) >= np.finfo(divisor.dtype).tiny)).all():
        return False
    is_exact = bool((np.abs(np.frexp(divisor)[0]) == 0.5).all())
    if not is_exact and node.outputs[0] in deciding:
        return False
    factor = graph.add_constant(inverse, f"{get_name(node.outputs[0])}_factor")
    _replace_with(graph, node, "Mul", [x, factor])
    return True


def _rewrite_prelu_to_leaky_relu(graph: Graph, node: Node) -> bool:
    x, slope = node.inputs[0], get_constant(node.inputs[1])
    if x is None or slope is None or slope.size != 1 or slope.dtype not in FLOAT_TYPES:
        return False
    shape = get_shape(x)
    if not np.isfinite(slope).all() or slope.ndim > (1 if shape is None else len(shape)):
        return False
    _replace_with(graph, node, "LeakyRelu", [x], alpha=float(slope.item()))
    return True


def _rewrite_max_min_to_clip(graph: Graph, node: Node) -> bool:
    """Replace a Max or Min of a tensor and one number by Clip; whether the node is one."""
    if len(node.inputs) != 2 or get_dtype(node.outputs[0]) not in FLOAT_TYPES:
        return False
    if graph.opset < CLIP_INPUTS_OPSET:
        return False
    for x, other in (node.inputs, reversed(node.inputs)):
        bound, shape = get_constant(other), None if x is None else get_shape(x)
        if bound is None or bound.size != 1 or is_constant(x) or shape is None:
            continue
        if bound.ndim <= len(shape) and not np.isnan(bound).any():
            limit = graph.add_constant(bound.reshape(()), f"{get_name(node.outputs[0])}_bound")
            _replace_with(
                graph, node, "Clip", [x, limit] if get_operator(node) == "Max" else [x, None, limit]
            )
            return True
    return False


def _replace_with(
    graph: Graph, node: Node, op: str, inputs: list[Value | None], **attrs: float
) -> None:
    y = node.outputs[0]
    name, dtype = f"{get_name(y)}_{op}", get_dtype(y)
    result = graph.insert(op, inputs, attrs=attrs, before=node, output=name, dtype=dtype)
    replace_node(graph, node, result)
