"""Add ∘ MatMul → Gemm with a bias.

A product of more than two axes becomes a Gemm between two Reshapes. Gemm adds its bias in the accumulator, which
MatMul cannot do.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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


def matmul_add_to_gemm(graph: Graph) -> list[Change]:
    """Replace MatMul of a tensor and a constant matrix, and the Add of a bias, by Gemm, in place.

    Before a BatchNormalization, a MatMul of two axes becomes a Gemm too, because a Gemm can absorb its offset. If
    several axes of a tensor vary, no Reshape can name them; its shape is then read when the model runs.
    """
    count, flat, leading = 0, dict[Value, Value](), dict[Value, Value]()
    for node in graph.nodes:
        shape = _match_dense(node)
        if shape is None:
            continue
        y = node.outputs[0]
        readers = [] if y.is_graph_output() else consumers_of(y)
        if len(readers) != 1 or readers[0].graph is not node.graph:
            continue
        after, weight = readers[0], constant_of(node.inputs[1])
        assert weight is not None
        bias = next((v for v in after.inputs if v is not y), None)
        if operator_of(after) == "Add" and _is_per_column(
            constant_of(bias), weight.shape[1], len(shape)
        ):
            last, inputs = after, [*node.inputs, _flatten_bias(graph, bias)]
        elif operator_of(after) == "BatchNormalization" and len(shape) == 2:
            last, inputs = node, [*node.inputs]
        else:
            continue
        if len(shape) > 2:
            inputs[0] = _flatten_to_matrix(graph, node, flat)
        gemm = graph.insert(
            "Gemm",
            inputs,
            before=node,
            output=f"{name_of(last.outputs[0])}_gemm",
            dtype=dtype_of(y),
        )
        if len(shape) > 2:
            sizes = [*(-1 if d is None else d for d in shape[:-1]), weight.shape[1]]
            if sizes.count(-1) < 2:
                target = _add_sizes(graph, name_of(gemm), sizes)
            else:
                target = _output_shape(graph, node, leading)
            gemm = _insert_reshape(graph, gemm, target, node)
        replace_node(graph, last, gemm)
        if last is not node:
            graph.remove(node)
        count += 1
    return [Change("matmul_add_to_gemm", count)] if count else []


def _match_dense(node: Node) -> tuple[int | None, ...] | None:
    """The shape of a MatMul's left operand if a Gemm can replace the node; else None."""
    if operator_of(node) != "MatMul" or node.inputs[0] is None:
        return None
    shape, weight = shape_of(node.inputs[0]), constant_of(node.inputs[1])
    if shape is None or weight is None or weight.ndim != 2 or weight.dtype not in FLOAT_TYPES:
        return None
    if len(shape) < 2 or (len(shape) > 2 and 0 in shape[:-1]):
        return None
    return shape


def _is_per_column(bias: NDArray[np.generic] | None, columns: int, rank: int) -> bool:
    return bias is not None and bias.ndim <= rank and bias.shape[-1:] == (columns,) == (bias.size,)


def _flatten_bias(graph: Graph, bias: Value | None) -> Value | None:
    array = constant_of(bias)
    if bias is None or array is None or array.ndim < 3:
        return bias
    return graph.add_constant(array.reshape(-1), name_of(bias))


def _flatten_to_matrix(graph: Graph, node: Node, flat: dict[Value, Value]) -> Value:
    """The left operand reshaped to a matrix, once for all its readers."""
    value, weight = node.inputs[0], constant_of(node.inputs[1])
    assert value is not None
    assert weight is not None
    if value not in flat:
        sizes = _add_sizes(graph, name_of(value), [-1, weight.shape[0]])
        flat[value] = _insert_reshape(graph, value, sizes, node)
    return flat[value]


def _output_shape(graph: Graph, node: Node, leading: dict[Value, Value]) -> Value:
    """The shape of the product, computed when the model runs: that of the left operand except for the last axis.

    The left operand's shape is read once for all its readers.
    """
    value, weight = node.inputs[0], constant_of(node.inputs[1])
    assert value is not None
    assert weight is not None
    name = name_of(value)
    if value not in leading:
        shape = _insert_int64(graph, "Shape", [value], node, f"{name}_shape")
        ends = [_add_sizes(graph, f"{name}_{end}", [at]) for end, at in (("start", 0), ("end", -1))]
        leading[value] = _insert_int64(graph, "Slice", [shape, *ends], node, f"{name}_leading")
    columns = _add_sizes(graph, f"{name_of(node.outputs[0])}_columns", [weight.shape[1]])
    sizes = [leading[value], columns]
    return _insert_int64(graph, "Concat", sizes, node, f"{name_of(node.outputs[0])}_shape", axis=0)


def _insert_int64(
    graph: Graph, op: str, inputs: list[Value], before: Node, output: str, **attrs: int
) -> Value:
    dtype = np.dtype(np.int64)
    return graph.insert(op, inputs, before=before, attrs=attrs, output=output, dtype=dtype)


def _add_sizes(graph: Graph, name: str, sizes: list[int]) -> Value:
    return graph.add_constant(np.array(sizes, np.int64), f"{name}_sizes")


def _insert_reshape(graph: Graph, value: Value, sizes: Value, before: Node) -> Value:
    return graph.insert(
        "Reshape",
        [value, sizes],
        before=before,
        output=f"{name_of(value)}_reshaped",
        dtype=dtype_of(value),
    )
