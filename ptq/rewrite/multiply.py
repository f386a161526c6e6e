"""Which operators with a constant have a simpler one that every runtime computes on integers?"""

from __future__ import annotations

import numpy as np

from ptq.graph import Graph
from ptq.nodes import FLOAT_TYPES, Node, Value, constant, dtype_of, name_of, operator
from ptq.rewrite.counted import counted
from ptq.rewrite.replace import replace


def multiply(graph: Graph) -> list[str]:
    """Turn a Div by a constant into a Mul, and a PRelu of one slope into a LeakyRelu; in place.

    The quotient may change by a last bit, where the reciprocal is not exact.

    Returns:
        One sentence for each kind of change.
    """
    divisions = [node for node in graph.nodes if operator(node) == "Div" and _divides(graph, node)]
    slopes = [node for node in graph.nodes if operator(node) == "PRelu" and _bends(graph, node)]
    turned = (("Div", "Mul", divisions), ("PRelu", "LeakyRelu", slopes))
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
    _put(graph, node, "LeakyRelu", [x], alpha=float(slope.item()))
    return True


def _put(graph: Graph, node: Node, op: str, inputs: list[Value | None], **attrs: float) -> None:
    y = node.outputs[0]
    name, dtype = f"{name_of(y)}_{op}", dtype_of(y)
    result = graph.insert(op, inputs, attrs=attrs, before=node, output=name, dtype=dtype)
    replace(graph, node, result)
