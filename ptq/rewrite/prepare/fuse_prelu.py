"""relu(x) − slope · relu(−x) → PRelu.

Keras writes PReLU so. The sum equals PRelu exactly; separate, it rounds to 8 bits three times.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
)
from ptq.rewrite.change import Change
from ptq.rewrite.edit import replace_node
from ptq.rewrite.match import (
    get_producer_op,
    get_scalar_constant,
    list_producer_inputs,
    split_constant,
)


def fuse_prelu(graph: Graph) -> list[Change]:
    """Replace the operators of PReLU by one node, in place."""
    count = 0
    for node in graph.nodes:
        found = _match_prelu(node)
        if found is None:
            continue
        (x, slope), y = found, node.outputs[0]
        result = graph.insert(
            "PRelu",
            [x, graph.add_constant(slope, f"{get_name(y)}_slope")],
            before=node,
            output=f"{get_name(y)}_named",
            dtype=get_dtype(y),
            shape_like=y,
        )
        replace_node(graph, node, result)
        count += 1
    graph.remove_unused()
    return [Change("fuse_prelu", count, new="PRelu")] if count else []


def _match_prelu(node: Node) -> tuple[Value, NDArray[Any]] | None:
    """The x and the slope of relu(x) − slope · relu(−x); None if the node is something else."""
    y, op = node.outputs[0], get_operator(node)
    if op not in ("Add", "Sub") or get_dtype(y) not in FLOAT_TYPES:
        return None
    operands = list_producer_inputs(y)
    for positive, negative in (operands, operands[::-1]) if op == "Add" else (operands,):
        x, scaled = _match_relu(positive), split_constant(negative, "Mul")
        if x is None or scaled is None or get_shape(x) is None or get_shape(x) != get_shape(y):
            continue
        below, factor = _match_relu(scaled[0]), get_constant(scaled[1])
        if below is None or factor is None or _match_negated(below) is not x:
            continue
        if np.isfinite(factor).all():
            return x, factor if op == "Sub" else -factor
    return None


def _match_relu(value: Value) -> Value | None:
    return list_producer_inputs(value)[0] if get_producer_op(value)[0] == "Relu" else None


def _match_negated(value: Value) -> Value | None:
    """The x of −x."""
    if get_producer_op(value)[0] == "Neg":
        return list_producer_inputs(value)[0]
    found = split_constant(value, "Mul")
    return found[0] if found is not None and get_scalar_constant(found[1]) == -1 else None
