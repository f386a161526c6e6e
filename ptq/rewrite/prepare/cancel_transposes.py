"""Transpose → elementwise operators → the inverse Transpose: the operators alone.

Exporters from channels-last frameworks leave such pairs around operators that they do not move a Transpose across. A
constant of several elements is transposed instead.
"""

from __future__ import annotations

import onnx_ir as ir

from ptq.core.ops import ELEMENTWISE, UNARY
from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    get_attributes,
    get_constant,
    get_name,
    get_operator,
    get_shape,
    is_constant,
)
from ptq.rewrite.change import Change
from ptq.rewrite.edit import set_constant
from ptq.rewrite.match import find_sole_reader

_ELEMENTWISE_OPS = UNARY | ELEMENTWISE | {"PRelu"}


def cancel_transposes(graph: Graph) -> list[Change]:
    """Remove pairs of inverse Transposes that stand around elementwise operators, in place; the values stay exact."""
    count = sum(_cancel(graph, node) for node in graph.nodes)
    graph.remove_unused()
    return [Change("cancel_transposes", count)] if count else []


def _cancel(graph: Graph, last: Node) -> bool:
    """Remove the Transpose and the inverse one before it; whether there is one."""
    perm, y = _find_permutation(last), last.outputs[0]
    value = last.inputs[0] if perm is not None else None
    if perm is None or value is None:
        return False
    chain = list[Node]()
    while (node := _find_elementwise_producer(value, len(perm))) is not None:
        chain.append(node)
        value = next(v for v in node.inputs if v is not None and not is_constant(v))
    first = value.producer()
    before = None if first is None or first.graph is not last.graph else _find_permutation(first)
    if first is None or before is None or [before[axis] for axis in perm] != sorted(perm):
        return False
    x = first.inputs[0]
    assert x is not None
    if y.is_graph_output() and not chain and (x.producer() is None or x.is_graph_output()):
        return False
    for node in chain:
        for index, operand in enumerate(node.inputs):
            array = get_constant(operand)
            if operand is value:
                node.replace_input_with(index, x)
            elif array is not None and array.size > 1:
                whole = array.reshape((1,) * (len(perm) - array.ndim) + array.shape)
                hint = f"{get_name(node.outputs[0])}_transposed"
                set_constant(graph, node, index, whole.transpose(perm), hint)
        shape = node.outputs[0].shape
        if shape is not None:
            node.outputs[0].shape = ir.Shape([shape[axis] for axis in perm])
    graph.substitute(y, chain[0].outputs[0] if chain else x)
    graph.remove(last)
    return True


def _find_permutation(node: Node) -> list[int] | None:
    """The axes of a Transpose; None if the node is something else or does not name them."""
    return get_attributes(node).get("perm") if get_operator(node) == "Transpose" else None


def _find_elementwise_producer(value: Value, rank: int) -> Node | None:
    """The elementwise operator of one tensor and constants that computes a value which one node alone reads."""
    node = value.producer()
    if node is None or get_operator(node) not in _ELEMENTWISE_OPS or len(node.outputs) != 1:
        return None
    tensors = [v for v in node.inputs if v is not None and not is_constant(v)]
    if find_sole_reader(value) is None or len(tensors) != 1:
        return None
    ranks = [
        len(shape) for v in node.inputs if v is not None and (shape := get_shape(v)) is not None
    ]
    known = len(ranks) == sum(v is not None for v in node.inputs)
    return node if known and max(ranks) == rank == len(get_shape(tensors[0]) or ()) else None
