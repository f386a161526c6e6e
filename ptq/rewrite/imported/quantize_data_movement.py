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
from ptq.model.node import Node, Value, consumers, operator
from ptq.model.qdq_units import Quantized, dequantized, quantizer, requantized

CARRIED = frozenset(
    ["Identity", "MaxPool", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"]
)


def adopt_moves(graph: Graph) -> None:
    """Surround movements of quantized tensors with quantizers."""
    for node in graph.nodes:
        if _carries(graph, node):
            _forward(graph, node)
    for node in reversed(graph.nodes):
        if operator(node) == "QuantizeLinear":
            _backward(graph, node)


def _carries(graph: Graph, node: Node) -> bool:
    if operator(node) == "MaxPool" and graph.opset < 12:
        return False  # there it takes no 8-bit integers
    return operator(node) in CARRIED and len(node.outputs) == 1


def _forward(graph: Graph, node: Node) -> None:
    source, moved = dequantized(node.inputs[0]), node.outputs[0]
    readers = [n for n in consumers(moved) if operator(n) != "QuantizeLinear"]
    if source is None or not _plain(source) or not readers or moved.is_graph_output():
        return
    real = _pair(graph, moved, source, node)
    for use in list(moved.uses()):
        if use.node in readers:
            use.node.replace_input_with(use.idx, real)


def _backward(graph: Graph, node: Node) -> None:
    found = quantizer(node, node.outputs[0])
    while found is not None and _plain(found):
        value = node.inputs[0]
        move = value.producer() if value is not None else None
        if move is None or not _carries(graph, move) or requantized(move.outputs[0]) is None:
            return
        before = move.inputs[0]
        maker = before.producer() if before is not None else None
        if before is None or maker is None or operator(maker) == "DequantizeLinear":
            return
        if consumers(before) != [move] or before.is_graph_output():
            return
        real = _pair(graph, before, found, maker)
        move.replace_input_with(0, real)
        dequantizer = real.producer()
        assert dequantizer is not None
        integers = dequantizer.inputs[0]
        quantize = integers.producer() if integers is not None else None
        assert quantize is not None
        node = quantize


def _plain(tensor: Quantized) -> bool:
    return tensor.params.axis is None and tensor.params.qtype.bits == 8


def _pair(graph: Graph, value: Value, tensor: Quantized, after: Node) -> Value:
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
