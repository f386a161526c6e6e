"""Add ∘ MatMul → Gemm with a bias.

A product of more than two axes becomes a Gemm between two Reshapes. Gemm adds its bias in the accumulator, which
MatMul cannot do.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
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
    list_consumers,
)
from ptq.rewrite.change import Change
from ptq.rewrite.edit import insert_reshape, replace_node
from ptq.rewrite.match import find_sole_reader


def rewrite_matmul_add_to_gemm(graph: Graph, *, allow_empty: bool = True) -> list[Change]:
    """Replace MatMul of a tensor and a constant matrix, and the Add of a bias, by Gemm, in place.

    Before a BatchNormalization of rows, a MatMul becomes a Gemm too, because a Gemm can absorb its offset. Where a
    Reshape or Flatten makes these rows of the product, the Gemm computes them itself.

    If several axes of a tensor vary, no Reshape can name them; its shape is then read when the model runs.

    Args:
        graph: The graph.
        allow_empty: Whether one of several axes that vary may be empty, from opset 14 on.
    """
    count, flat, leading = 0, dict[Value, Value](), dict[Value, Value]()
    for node in graph.nodes:
        shape = _match_dense(node)
        if shape is None:
            continue
        y = node.outputs[0]
        after, weight = find_sole_reader(y), get_constant(node.inputs[1])
        assert weight is not None
        bias = None if after is None else next((v for v in after.inputs if v is not y), None)
        if (
            after is not None
            and get_operator(after) == "Add"
            and _is_per_column(get_constant(bias), weight.shape[1], len(shape))
        ):
            last, inputs = after, [*node.inputs, _flatten_bias(graph, bias)]
        else:
            last, inputs = node, [*node.inputs]
        rows = _find_rows_to_normalize(last, len(shape), weight.shape[1])
        if rows is None and last is node:
            continue
        end, *inner = dict.fromkeys([rows or last, last, node])
        if len(shape) > 2:
            inputs[0] = _flatten_to_matrix(graph, node, flat)
        gemm = graph.insert(
            "Gemm",
            inputs,
            before=node,
            output=f"{get_name(end.outputs[0])}_gemm",
            dtype=get_dtype(y),
        )
        if len(shape) > 2 and rows is None:
            sizes = [*(-1 if d is None else d for d in shape[:-1]), weight.shape[1]]
            several_vary = sizes.count(-1) > 1
            target = _insert_output_shape(graph, node, leading) if several_vary else sizes
            empty = several_vary and allow_empty
            gemm = insert_reshape(graph, gemm, target, node, allow_zero=empty)
        replace_node(graph, end, gemm)
        for reader in list_consumers(last.outputs[0]):  # of its shape
            replace_node(graph, reader, _insert_output_shape(graph, node, leading))
        for replaced in inner:
            graph.remove(replaced)
        count += 1
    return [Change("matmul_add_to_gemm", count)] if count else []


def _match_dense(node: Node) -> tuple[int | None, ...] | None:
    """The shape of a MatMul's left operand if a Gemm can replace the node; else None."""
    if get_operator(node) != "MatMul" or node.inputs[0] is None:
        return None
    shape, weight = get_shape(node.inputs[0]), get_constant(node.inputs[1])
    if shape is None or weight is None or weight.ndim != 2 or weight.dtype not in FLOAT_TYPES:
        return None
    if len(shape) < 2 or (len(shape) > 2 and 0 in shape[:-1]):
        return None
    return shape


def _is_whole_shape(node: Node) -> bool:
    """Whether a node is a Shape of all axes that no output of the graph needs."""
    is_shape = get_operator(node) == "Shape" and not node.attributes
    return is_shape and not node.outputs[0].is_graph_output()


def _find_rows_to_normalize(dense: Node, rank: int, columns: int) -> Node | None:
    """The node whose result, of shape (rows, columns), a BatchNormalization alone reads; None if there is none.

    It is the last node of the layer, or a Reshape or Flatten behind it: its last axis has as many values, so it only
    joins the axes before.
    """
    made, reader = dense, find_sole_reader(dense.outputs[0])
    view = find_sole_reader(dense.outputs[0], ignore=_is_whole_shape)
    if (
        view is not None
        and get_operator(view) in ("Flatten", "Reshape")
        and view.inputs[0] is dense.outputs[0]
        and (shape := get_shape(view.outputs[0])) is not None
        and shape[1:] == (columns,)
    ):
        made, reader, rank = view, find_sole_reader(view.outputs[0]), 2
    normalizes = reader is not None and get_operator(reader) == "BatchNormalization"
    return made if normalizes and rank == 2 else None


def _is_per_column(bias: NDArray[np.generic] | None, columns: int, rank: int) -> bool:
    return bias is not None and bias.ndim <= rank and bias.shape[-1:] == (columns,) == (bias.size,)


def _flatten_bias(graph: Graph, bias: Value | None) -> Value | None:
    array = get_constant(bias)
    if bias is None or array is None or array.ndim < 3:
        return bias
    return graph.add_constant(array.reshape(-1), get_name(bias))


def _flatten_to_matrix(graph: Graph, node: Node, flat: dict[Value, Value]) -> Value:
    """The left operand reshaped to a matrix, once for all its readers. The weight says how long its last axis is."""
    value, weight = node.inputs[0], get_constant(node.inputs[1])
    assert value is not None
    assert weight is not None
    if value.shape is not None and (get_shape(value) or ())[-1:] == (None,):
        value.shape = ir.Shape([*value.shape[:-1], weight.shape[0]])
    if value not in flat:
        flat[value] = insert_reshape(graph, value, (-1, weight.shape[0]), node)
    return flat[value]


def _insert_output_shape(graph: Graph, node: Node, leading: dict[Value, Value]) -> Value:
    """The shape of the product, computed when the model runs: that of the left operand except for the last axis.

    The left operand's shape is read once for all its readers.
    """
    value, weight = node.inputs[0], get_constant(node.inputs[1])
    assert value is not None
    assert weight is not None
    name = get_name(value)
    if value not in leading:
        shape = _insert_int64(graph, "Shape", [value], node, f"{name}_shape")
        ends = [_add_sizes(graph, f"{name}_{end}", [at]) for end, at in (("start", 0), ("end", -1))]
        leading[value] = _insert_int64(graph, "Slice", [shape, *ends], node, f"{name}_leading")
    columns = _add_sizes(graph, f"{get_name(node.outputs[0])}_columns", [weight.shape[1]])
    sizes = [leading[value], columns]
    return _insert_int64(graph, "Concat", sizes, node, f"{get_name(node.outputs[0])}_shape", axis=0)


def _insert_int64(
    graph: Graph, op: str, inputs: list[Value], before: Node, output: str, **attrs: int
) -> Value:
    dtype = np.dtype(np.int64)
    return graph.insert(op, inputs, before=before, attrs=attrs, output=output, dtype=dtype)


def _add_sizes(graph: Graph, name: str, sizes: list[int]) -> Value:
    return graph.add_constant(np.array(sizes, np.int64), f"{name}_sizes")
