"""Gemm → Gemm of the form x·W + bias, with separate nodes for the rest.

alpha and beta are folded into the constants, and transA becomes a Transpose. A bias has one value for each column; an
Add adds any other C. A Gemm with a computed B becomes a MatMul.
"""

from __future__ import annotations

import math

import numpy as np

from ptq.core.types import FLOAT32
from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    get_attributes,
    get_constant,
    get_dtype,
    get_name,
    get_operator,
    is_constant,
    require_constant,
)
from ptq.model.weights.layer_weights import count_output_channels
from ptq.rewrite.change import Change
from ptq.rewrite.edit import replace_node, set_attributes, set_constant


def normalize_gemm(graph: Graph) -> list[Change]:
    """Reduce each Gemm of float32 tensors to a product and a bias, in place."""
    count = 0
    for node in graph.nodes:
        if get_operator(node) != "Gemm" or any(
            value is not None and get_dtype(value) != FLOAT32 for value in node.inputs
        ):
            continue
        weight = get_constant(node.inputs[1])
        if weight is None and _is_large_constant(node.inputs[1]):
            continue
        if weight is None:
            _to_matmul(graph, node)
        elif _is_normalized(node, weight.shape):
            continue
        else:
            _normalize(graph, node)
        count += 1
    return [Change("normalize_gemm", count)] if count else []


def _is_large_constant(value: Value | None) -> bool:
    """Whether a node computes the value from constants alone.

    Constant folding has left this node because its result is too large to store; to quantize it costs more.
    """
    producer = value.producer() if value is not None else None
    return producer is not None and all(is_constant(v) for v in producer.inputs)


def _is_normalized(node: Node, shape: tuple[int, ...]) -> bool:
    attrs = get_attributes(node)
    c = node.inputs[2] if len(node.inputs) > 2 else None
    bias = get_constant(c)
    columns = count_output_channels(node, shape)
    return (
        not attrs.get("transA")
        and attrs.get("alpha", 1.0) == attrs.get("beta", 1.0) == 1
        and (c is None or (bias is not None and bias.shape == (columns,)))
    )


def _normalize(graph: Graph, node: Node) -> None:
    """Fold alpha and beta into the constants, in place; an Add adds a C that is not a bias."""
    attrs = get_attributes(node)
    alpha, beta = attrs.get("alpha", 1.0), attrs.get("beta", 1.0)
    weight = require_constant(node.inputs[1])
    if alpha != 1:
        set_constant(graph, node, 1, (weight * np.float32(alpha)), "weight")
    if attrs.get("transA"):
        assert node.inputs[0] is not None
        node.replace_input_with(0, _insert_transpose(graph, node, node.inputs[0]))
    set_attributes(node, alpha=None, beta=None, transA=None)
    c = node.inputs[2] if len(node.inputs) > 2 else None
    bias, columns = get_constant(c), count_output_channels(node, weight.shape)
    if bias is not None and math.prod(bias.shape[:-1]) == 1:
        flat = np.broadcast_to(bias.reshape(-1) * np.float32(beta), (columns,))
        set_constant(graph, node, 2, flat.copy(), "bias")
    elif c is not None:
        node.resize_inputs(2)
        y = node.outputs[0]
        product = graph.insert(
            "Gemm",
            list(node.inputs),
            attrs=get_attributes(node),
            before=node,
            output=f"{get_name(y)}_product",
            dtype=FLOAT32,
            shape_like=y,
        )
        replace_node(graph, node, _insert_sum(graph, node, product, c, beta))


def _to_matmul(graph: Graph, node: Node) -> None:
    """Replace a Gemm with a computed B by MatMul, Mul by alpha and Add of beta · C."""
    attrs = get_attributes(node)
    sides = []
    for value, flag in zip(node.inputs[:2], ("transA", "transB"), strict=True):
        assert value is not None
        sides.append(_insert_transpose(graph, node, value) if attrs.get(flag) else value)
    y = node.outputs[0]
    result = _insert(graph, node, "MatMul", sides, "product", y)
    alpha = attrs.get("alpha", 1.0)
    if alpha != 1:
        factor = graph.add_constant(np.array(alpha, np.float32), f"{get_name(y)}_alpha")
        result = _insert(graph, node, "Mul", [result, factor], "scaled", y)
    c = node.inputs[2] if len(node.inputs) > 2 else None
    if c is not None:
        result = _insert_sum(graph, node, result, c, attrs.get("beta", 1.0))
    replace_node(graph, node, result)


def _insert_sum(graph: Graph, node: Node, product: Value, c: Value, beta: float) -> Value:
    y, array = node.outputs[0], get_constant(c)
    if array is not None:
        c = graph.add_constant(array * np.float32(beta), f"{get_name(c)}_added") if beta != 1 else c
    elif beta != 1:
        factor = graph.add_constant(np.array(beta, np.float32), f"{get_name(y)}_beta")
        c = _insert(graph, node, "Mul", [c, factor], "added", c)
    return _insert(graph, node, "Add", [product, c], "sum", y)


def _insert_transpose(graph: Graph, node: Node, value: Value) -> Value:
    return graph.insert(
        "Transpose",
        [value],
        before=node,
        attrs={"perm": [1, 0]},
        output=f"{get_name(value)}_transposed",
        dtype=FLOAT32,
    )


def _insert(
    graph: Graph, node: Node, op: str, inputs: list[Value], hint: str, like: Value
) -> Value:
    return graph.insert(
        op,
        inputs,
        before=node,
        output=f"{get_name(node.outputs[0])}_{hint}",
        dtype=FLOAT32,
        shape_like=like,
    )
