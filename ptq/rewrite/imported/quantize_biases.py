"""Quantizes the float biases of integer operators, and joins a bias Add to its MatMul.

    c = rne(float32(b / float32(sx · sw)))        int32, ties to even

as ONNX Runtime 1.31 does from its basic optimizations on (measured: 0 of 1600 differ). A MatMul whose Add has one
constant a column becomes Gemm, between two Reshapes where its left operand has more than two axes.
"""

from __future__ import annotations

import numpy as np

from ptq.core.types import INT32, FloatArray
from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    attributes_of,
    constant_of,
    consumers_of,
    name_of,
    operator_of,
    shape_of,
)
from ptq.model.qdq_units import QuantizedTensor, quantized_result, quantized_source

# A Conv's bias of a scale farther from input × weight than this is real to ONNX Runtime; nearer, its integers count.
_TOLERANCE = np.float32(0.0101)


def fuse_matmul_add(graph: Graph) -> None:
    """Make Gemm of each MatMul between integers to which a constant a column is added."""
    for node in graph.nodes:
        if operator_of(node) == "Add":
            _fuse_matmul_into_add(graph, node)


def quantize_biases(graph: Graph) -> None:
    """Make int32 constants of float biases between integers."""
    for node in graph.nodes:
        if operator_of(node) in ("Conv", "Gemm") and len(node.inputs) > 2:
            _quantize_bias(graph, node)


def _activation_and_weight(node: Node) -> tuple[QuantizedTensor, QuantizedTensor] | None:
    """Activation and constant weight of an operator between integers."""
    x, w = quantized_source(node.inputs[0]), quantized_source(node.inputs[1])
    if x is None or w is None or x.params.axis is not None or constant_of(w.integers) is None:
        return None
    return (x, w) if x.params.qtype.bits == w.params.qtype.bits == 8 else None


def _fuse_matmul_into_add(graph: Graph, add: Node) -> None:
    if quantized_result(add.outputs[0]) is None:
        return
    for product, bias in ((add.inputs[0], add.inputs[1]), (add.inputs[1], add.inputs[0])):
        node = product.producer() if product is not None else None
        if node is None or operator_of(node) != "MatMul" or consumers_of(node.outputs[0]) != [add]:
            continue
        found = _activation_and_weight(node)
        weight = constant_of(found[1].integers) if found is not None else None
        if (
            bias is None
            or weight is None
            or weight.ndim != 2
            or _constant_length(bias) != weight.shape[1]
        ):
            continue
        if not node.outputs[0].is_graph_output():
            _write_gemm(graph, node, add, bias, weight.shape)


def _constant_length(bias: Value) -> int | None:
    """How many elements a one-dimensional constant has, float or int32."""
    array, quantized = constant_of(bias), quantized_source(bias)
    if quantized is not None and quantized.params.qtype.bits == 32:
        array = constant_of(quantized.integers)
    return None if array is None or array.ndim != 1 else int(array.size)


def _write_gemm(graph: Graph, node: Node, add: Node, bias: Value, weight: tuple[int, ...]) -> None:
    left, out = node.inputs[0], add.outputs[0]
    assert left is not None
    shape = shape_of(left)
    if shape is None or (len(shape) != 2 and None in shape):
        return
    high = len(shape) != 2
    if high:
        left = _insert_reshape(graph, left, (-1, weight[0]), add)
    result = graph.insert(
        "Gemm",
        [left, node.inputs[1], bias],
        before=add,
        output=f"{name_of(out)}_joined",
        dtype=np.dtype(np.float32),
    )
    if high:
        result = _insert_reshape(graph, result, (*(d or 0 for d in shape[:-1]), weight[1]), add)
    graph.redirect(out, result)


def _insert_reshape(graph: Graph, value: Value, shape: tuple[int, ...], before: Node) -> Value:
    target = graph.add_constant(np.array(shape, np.int64), f"{name_of(value)}_shape")
    return graph.insert(
        "Reshape",
        [value, target],
        before=before,
        output=f"{name_of(value)}_reshaped",
        dtype=np.dtype(np.float32),
    )


def _float_bias(node: Node, x: QuantizedTensor, w: QuantizedTensor) -> FloatArray | None:
    """A float bias, or what a Conv's integers of another scale stand for; None where there is nothing to do."""
    array, found = constant_of(node.inputs[2]), quantized_source(node.inputs[2])
    if array is not None:
        return array if array.dtype == np.float32 else None
    integers = constant_of(found.integers) if found is not None else None
    if found is None or integers is None or operator_of(node) != "Conv":
        return None  # QGemm takes the integers whatever their scale
    wanted = x.params.scale * w.params.scale
    far = np.abs(found.params.scale - wanted) > _TOLERANCE * wanted
    return found.params.dequantize(integers) if far.any() else None


def _quantize_bias(graph: Graph, node: Node) -> None:
    found = _activation_and_weight(node)
    array = _float_bias(node, *found) if found is not None else None
    if array is None or found is None:
        return
    if quantized_result(node.outputs[0]) is None or array.ndim != 1:
        return
    if attributes_of(node).get("beta", 1.0) != 1.0:
        return
    x, w = found
    scale = x.params.scale * w.params.scale
    steps = np.rint(array / scale)
    if not bool(np.all((steps >= INT32.lo) & (steps <= np.float32(2**31 - 128)))):
        return
    hint = name_of(node.inputs[2]) if node.inputs[2] is not None else "bias"
    integers = graph.add_constant(steps.astype(np.int32), f"{hint}_quantized")
    scales = graph.add_constant(scale, f"{hint}_scale")
    real = graph.insert(
        "DequantizeLinear",
        [integers, scales],
        attrs={"axis": 0} if scale.ndim else {},
        before=node,
        output=f"{hint}_dequantized",
        dtype=np.dtype(np.float32),
        shape_like=integers,
    )
    node.replace_input_with(2, real)
