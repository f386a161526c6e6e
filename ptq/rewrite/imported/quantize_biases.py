"""Float biases of integer operators → int32, and Add ∘ MatMul → Gemm.

    c = rne(float32(b / float32(sx · sw)))        int32, ties to even

as ONNX Runtime 1.31 computes it from its basic optimizations on (measured: 0 of 1600 differ). A MatMul whose Add has
one constant for each column becomes Gemm. If its left operand has more than two axes, Gemm stands between two
Reshapes.
"""

from __future__ import annotations

import numpy as np

from ptq.core.types import FLOAT32, INT32, FloatArray
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
    list_consumers,
)
from ptq.model.qdq.qdq_units import QuantizedTensor, find_quantized_result, find_quantized_source
from ptq.rewrite.change import Change
from ptq.rewrite.edit import insert_reshape

_TOLERANCE = np.float32(0.0101)
"""Relative distance of a Conv's bias scale from input × weight up to which ONNX Runtime uses the bias's integers.

Beyond it, ONNX Runtime dequantizes the bias.
"""


def fuse_matmul_add(graph: Graph) -> list[Change]:
    """Replace each quantized MatMul and the Add of one constant for each column by Gemm, in place."""
    adds = [node for node in graph.nodes if get_operator(node) == "Add"]
    count = sum(_fuse_matmul_into_add(graph, node) for node in adds)
    if not count:
        return []
    graph.remove_unused()
    return [Change("fuse_matmul_add", count)]


def quantize_biases(graph: Graph) -> list[Change]:
    """Replace float biases of quantized operators by int32 constants, in place."""
    layers = [node for node in graph.nodes if get_operator(node) in ("Conv", "Gemm")]
    count = sum(_quantize_bias(graph, node) for node in layers if len(node.inputs) > 2)
    if not count:
        return []
    graph.remove_unused()
    return [Change("quantize_biases", count)]


def _find_activation_and_weight(node: Node) -> tuple[QuantizedTensor, QuantizedTensor] | None:
    """Activation and constant weight of a quantized operator, both of 8 bits; else None."""
    x, w = find_quantized_source(node.inputs[0]), find_quantized_source(node.inputs[1])
    if x is None or w is None or x.params.axis is not None or not is_constant(w.integers):
        return None
    return (x, w) if x.params.qtype.bits == w.params.qtype.bits == 8 else None


def _fuse_matmul_into_add(graph: Graph, add: Node) -> bool:
    if find_quantized_result(add.outputs[0]) is None:
        return False
    for product, bias in ((add.inputs[0], add.inputs[1]), (add.inputs[1], add.inputs[0])):
        node = product.producer() if product is not None else None
        if (
            node is None
            or get_operator(node) != "MatMul"
            or list_consumers(node.outputs[0]) != [add]
        ):
            continue
        found = _find_activation_and_weight(node)
        weight = get_constant(found[1].integers) if found is not None else None
        if (
            bias is None
            or weight is None
            or weight.ndim != 2
            or _find_constant_length(bias) != weight.shape[1]
        ):
            continue
        if not node.outputs[0].is_graph_output():
            return _write_gemm(graph, node, add, bias, weight.shape)
    return False


def _find_constant_length(bias: Value) -> int | None:
    """The number of elements of a one-dimensional constant, float or int32; else None."""
    array, quantized = get_constant(bias), find_quantized_source(bias)
    if quantized is not None and quantized.params.qtype.bits == 32:
        array = get_constant(quantized.integers)
    return None if array is None or array.ndim != 1 else int(array.size)


def _write_gemm(graph: Graph, node: Node, add: Node, bias: Value, weight: tuple[int, ...]) -> bool:
    left, out = node.inputs[0], add.outputs[0]
    assert left is not None
    shape = get_shape(left)
    if shape is None or (len(shape) != 2 and None in shape):
        return False
    if len(shape) != 2:
        left = insert_reshape(graph, left, (-1, weight[0]), add)
    result = graph.insert(
        "Gemm",
        [left, node.inputs[1], bias],
        before=add,
        output=f"{get_name(out)}_joined",
        dtype=FLOAT32,
    )
    if len(shape) != 2:
        result = insert_reshape(graph, result, (*(d or 0 for d in shape[:-1]), weight[1]), add)
    graph.redirect(out, result)
    return True


def _find_float_bias(node: Node, x: QuantizedTensor, w: QuantizedTensor) -> FloatArray | None:
    """A float bias, or the real values of a Conv's int32 bias of another scale; None for all other biases."""
    array, found = get_constant(node.inputs[2]), find_quantized_source(node.inputs[2])
    if array is not None:
        return array if array.dtype == np.float32 else None
    integers = get_constant(found.integers) if found is not None else None
    if found is None or integers is None or get_operator(node) != "Conv":
        return None  # QGemm uses the integers, whatever their scale
    expected = x.params.scale * w.params.scale
    differs = np.abs(found.params.scale - expected) > _TOLERANCE * expected
    return found.params.dequantize(integers) if differs.any() else None


def _quantize_bias(graph: Graph, node: Node) -> bool:
    found = _find_activation_and_weight(node)
    array = _find_float_bias(node, *found) if found is not None else None
    if array is None or found is None:
        return False
    if find_quantized_result(node.outputs[0]) is None or array.ndim != 1:
        return False
    if get_attributes(node).get("beta", 1.0) != 1.0:
        return False
    x, w = found
    scale = x.params.scale * w.params.scale
    rounded = np.rint(array / scale)
    if not bool(np.all((rounded >= INT32.lo) & (rounded <= np.float32(2**31 - 128)))):
        return False
    hint = get_name(node.inputs[2]) if node.inputs[2] is not None else "bias"
    integers = graph.add_constant(rounded.astype(np.int32), f"{hint}_quantized")
    scales = graph.add_constant(scale, f"{hint}_scale")
    real = graph.insert(
        "DequantizeLinear",
        [integers, scales],
        attrs={"axis": 0} if scale.ndim else {},
        before=node,
        output=f"{hint}_dequantized",
        dtype=FLOAT32,
        shape_like=integers,
    )
    node.replace_input_with(2, real)
    return True
