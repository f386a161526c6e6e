"""Gives quantizers to movements that have none of their own.

DequantizeLinear → movement → operator      → … movement → QuantizeLinear → DequantizeLinear → operator
operator → movement → QuantizeLinear        → operator → QuantizeLinear → DequantizeLinear → movement → …

with the same scale and zero point, which changes no integer: QuantizeLinear takes a value back to the integer that
DequantizeLinear made it from, and rises with its input, so that it commutes with MaxPool. These are the movements
through which ONNX Runtime 1.31 carries quantizers (measured, one by one).
"""

from __future__ import annotations

import numpy as np

from ptq.model.graph import Graph
from ptq.model.node import Node, Value, consumers_of, operator_of
from ptq.model.qdq_units import QuantizedTensor, quantized_result, quantized_source, read_quantizer

PROPAGATED_OPS = frozenset(
    ["Identity", "MaxPool", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"]
)


def quantize_data_movement(graph: Graph) -> None:
    """Surround movements of quantized tensors with quantizers."""
    for node in graph.nodes:
        if _can_propagate(graph, node):
            _propagate_forward(graph, node)
    for node in reversed(graph.nodes):
        if operator_of(node) == "QuantizeLinear":
            _propagate_backward(graph, node)


def _can_propagate(graph: Graph, node: Node) -> bool:
    if operator_of(node) == "MaxPool" and graph.opset < 12:
        return False  # there it takes no 8-bit integers
    return operator_of(node) in PROPAGATED_OPS and len(node.outputs) == 1


def _propagate_forward(graph: Graph, node: Node) -> None:
    source, moved = quantized_source(node.inputs[0]), node.outputs[0]
    readers = [n for n in consumers_of(moved) if operator_of(n) != "QuantizeLinear"]
    if source is None or not _is_per_tensor_8_bit(source) or not readers or moved.is_graph_output():
        return
    real = _insert_q_dq(graph, moved, source, node)
    for use in list(moved.uses()):
        if use.node in readers:
            use.node.replace_input_with(use.idx, real)


def _propagate_backward(graph: Graph, node: Node) -> None:
    found = read_quantizer(node, node.outputs[0])
    while found is not None and _is_per_tensor_8_bit(found):
        value = node.inputs[0]
        move = value.producer() if value is not None else None
        if (
            move is None
            or not _can_propagate(graph, move)
            or quantized_result(move.outputs[0]) is None
        ):
            return
        before = move.inputs[0]
        maker = before.producer() if before is not None else None
        if before is None or maker is None or operator_of(maker) == "DequantizeLinear":
            return
        if consumers_of(before) != [move] or before.is_graph_output():
            return
        real = _insert_q_dq(graph, before, found, maker)
        move.replace_input_with(0, real)
        dequantizer = real.producer()
        assert dequantizer is not None
        integers = dequantizer.inputs[0]
        quantize = integers.producer() if integers is not None else None
        assert quantize is not None
        node = quantize


def _is_per_tensor_8_bit(tensor: QuantizedTensor) -> bool:
    return tensor.params.axis is None and tensor.params.qtype.bits == 8


def _insert_q_dq(graph: Graph, value: Value, tensor: QuantizedTensor, after: Node) -> Value:
    """A QuantizeLinear and a DequantizeLinear of the value; the real reading of its integers."""
    parameters = [tensor.scale, tensor.zero_point]
    integers = graph.insert(
        "QuantizeLinear",
        [value, *parameters],
        after=after,
        output=f"{value.name}_carried",
        dtype=tensor.params.qtype.dtype,
        shape_like=value,
    )
    return graph.insert(
        "DequantizeLinear",
        [integers, *parameters],
        after=integers.producer(),
        output=f"{value.name}_carried_dequantized",
        dtype=np.dtype(np.float32),
        shape_like=value,
    )
