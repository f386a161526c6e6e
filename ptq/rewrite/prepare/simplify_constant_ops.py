"""Which operators with a constant have a simpler one that every runtime computes on integers?"""

from __future__ import annotations

import numpy as np

from ptq.core.wording import counted
from ptq.model.graph import Graph
from ptq.model.node import FLOAT_TYPES, Node, Value, constant, dtype_of, name_of, operator, shape_of
from ptq.rewrite.edit import replace

_BOUNDS = ("Max", "Min")


def multiply(graph: Graph) -> list[str]:
    """Turn Div by a constant into Mul, PRelu of one slope into LeakyRelu, Max or Min with a number into Clip.

    All in place. The quotient may change by a last bit, where the reciprocal is not exact.

    Returns:
        One sentence for each kind of change.
    """
    divisions = [node for node in graph.nodes if operator(node) == "Div" and _divides(graph, node)]
    slopes = [node for node in graph.nodes if operator(node) == "PRelu" and _bends(graph, node)]
    bounds = {
        op: [n for n in graph.nodes if operator(n) == op and _bounds(graph, n)] for op in _BOUNDS
    }
    turned = (
        ("Div", "Mul", divisions),
        ("PRelu", "LeakyRelu", slopes),
        *((op, "Clip", nodes) for op, nodes in bounds.items()),
    )
    return [
        f"turned {counted(len(nodes), f'{old} node')} into {new}"
        for old, new, nodes in turned
        if nodes
    ]


def _divides(graph: Graph, node: Node) -> bool:
    x, divisor = node.inputs[0], constant(node.inputs[1])
    if x is None or constant(x) is not None or divisor is None or divisor.dtype not in FLOAT_TYPES:
        return False
    with np.errstate(all="ignore"):
        inverse = np.reciprocal(divisor.astype(np.float64)).astype(divisor.dtype)
    if not (np.isfinite(inverse) & (np.abs(inverse) >= np.finfo(divisor.dtype).tiny)).all():
        return False
    factor = graph.add_constant(inverse, f"{name_of(node.outputs[0])}_factor")
    _put(graph, node, "Mul", [x, factor])
    return True


def _bends(graph: Graph, node: Node) -> bool:
    x, slope = node.inputs[0], constant(node.inputs[1])
    if x is None or slope is None or slope.size != 1 or slope.dtype not in FLOAT_TYPES:
        return False
    shape = shape_of(x)
    if not np.isfinite(slope).all() or slope.ndim > (1 if shape is None else len(shape)):
        return False
    _put(graph, node, "LeakyRelu", [x], alpha=float(slope.item()))
    return True


def _bounds(graph: Graph, node: Node) -> bool:
    """A Max or Min of a tensor and one number."""
    if len(node.inputs) != 2 or dtype_of(node.outputs[0]) not in FLOAT_TYPES:
        return False
    for x, other in (node.inputs, reversed(node.inputs)):
        bound, shape = constant(other), None if x is None else shape_of(x)
        if bound is None or bound.size != 1 or constant(x) is not None or shape is None:
            continue
        if bound.ndim <= len(shape) and not np.isnan(bound).any():
            limit = graph.add_constant(bound.reshape(()), f"{name_of(node.outputs[0])}_bound")
            _put(graph, node, "Clip", [x, limit] if operator(node) == "Max" else [x, None, limit])
            return True
    return False


def _put(graph: Graph, node: Node, op: str, inputs: list[Value | None], **attrs: float) -> None:
    y = node.outputs[0]
    name, dtype = f"{name_of(y)}_{op}", dtype_of(y)
    result = graph.insert(op, inputs, attrs=attrs, before=node, output=name, dtype=dtype)
    replace(graph, node, result)
