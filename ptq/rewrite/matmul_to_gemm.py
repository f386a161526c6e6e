"""Which MatMul nodes are dense layers, one Gemm with its bias?

A product of more than two axes becomes a Gemm between two Reshapes, which takes its bias into the accumulator; a
MatMul cannot.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptq.graph import Graph
from ptq.nodes import (
    FLOAT_TYPES,
    Node,
    Value,
    constant,
    consumers,
    dtype_of,
    name_of,
    operator,
    shape_of,
)
from ptq.rewrite.counted import counted
from ptq.rewrite.replace import replace


def matmul_to_gemm(graph: Graph) -> list[str]:
    """Turn MatMul of a tensor and a constant matrix, and the Add of a bias, into Gemm; in place.

    Before a BatchNormalization a MatMul of two axes alone becomes a Gemm, which can take its offset. Of the axes of
    a larger tensor one may vary, which a Reshape can still name.

    Returns:
        One sentence if something changed.
    """
    turned, flat = 0, dict[Value, Value]()
    for node in graph.nodes:
        shape = _dense(node)
        if shape is None:
            continue
        y = node.outputs[0]
        readers = [] if y.is_graph_output() else consumers(y)
        if len(readers) != 1 or readers[0].graph is not node.graph:
            continue
        after, weight = readers[0], constant(node.inputs[1])
        assert weight is not None
        bias = next((v for v in after.inputs if v is not y), None)
        if operator(after) == "Add" and _one_a_column(constant(bias), weight.shape[1], len(shape)):
            last, inputs = after, [*node.inputs, _flat_bias(graph, bias)]
        elif operator(after) == "BatchNormalization" and len(shape) == 2:
            last, inputs = node, [*node.inputs]
        else:
            continue
        if len(shape) > 2:
            inputs[0] = _rows(graph, node, flat)
        gemm = graph.insert(
            "Gemm",
            inputs,
            before=node,
            output=f"{name_of(last.outputs[0])}_gemm",
            dtype=dtype_of(y),
        )
        if len(shape) > 2:
            sizes = [*(-1 if d is None else d for d in shape[:-1]), weight.shape[1]]
            gemm = _reshaped(graph, gemm, sizes, node)
        replace(graph, last, gemm)
        if last is not node:
            graph.remove(node)
        turned += 1
    return [f"turned {counted(turned, 'MatMul node')} into Gemm"] if turned else []


def _dense(node: Node) -> tuple[int | None, ...] | None:
    """The left operand's shape, where the right one is a constant matrix and a Gemm can take its place."""
    if operator(node) != "MatMul" or node.inputs[0] is None:
        return None
    shape, weight = shape_of(node.inputs[0]), constant(node.inputs[1])
    if shape is None or weight is None or weight.ndim != 2 or weight.dtype not in FLOAT_TYPES:
        return None
    leading = shape[:-1]
    if len(shape) < 2 or (len(shape) > 2 and (leading.count(None) > 1 or 0 in leading)):
        return None
    return shape


def _one_a_column(bias: NDArray[np.generic] | None, columns: int, rank: int) -> bool:
    return bias is not None and bias.ndim <= rank and bias.shape[-1:] == (columns,) == (bias.size,)


def _flat_bias(graph: Graph, bias: Value | None) -> Value | None:
    array = constant(bias)
    if bias is None or array is None or array.ndim < 3:
        return bias
    return graph.add_constant(array.reshape(-1), name_of(bias))


def _rows(graph: Graph, node: Node, flat: dict[Value, Value]) -> Value:
    """The left operand as rows, once for all its readers."""
    value, weight = node.inputs[0], constant(node.inputs[1])
    assert value is not None
    assert weight is not None
    if value not in flat:
        flat[value] = _reshaped(graph, value, [-1, weight.shape[0]], node)
    return flat[value]


def _reshaped(graph: Graph, value: Value, sizes: list[int], before: Node) -> Value:
    return graph.insert(
        "Reshape",
        [value, graph.add_constant(np.array(sizes, np.int64), f"{name_of(value)}_sizes")],
        before=before,
        output=f"{name_of(value)}_reshaped",
        dtype=dtype_of(value),
    )
