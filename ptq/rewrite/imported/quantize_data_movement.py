"""Q/DQ pairs around data movement that has none.

DequantizeLinear → movement → operator      → … movement → QuantizeLinear → DequantizeLinear → operator
operator → movement → QuantizeLinear        → operator → QuantizeLinear → DequantizeLinear → movement → …

with the same scale and zero point. No integer changes: QuantizeLinear returns a value to the integer that
DequantizeLinear made it from, and it is monotonic, so that it commutes with MaxPool. ONNX Runtime 1.31 carries
quantizers through these operators (each of them measured).
"""

from __future__ import annotations

from ptq.core.types import FLOAT32
from ptq.model.graph import Graph
from ptq.model.node import Node, Value, get_operator, list_consumers
from ptq.model.qdq.qdq_units import (
    QuantizedTensor,
    find_quantized_result,
    find_quantized_source,
    read_quantizer,
)
from ptq.rewrite.change import Change

PROPAGATED_OPS = frozenset(
    ["Identity", "MaxPool", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"]
)


def quantize_data_movement(graph: Graph) -> list[Change]:
    """Add a Q/DQ pair between data movement and its float neighbours, in place."""
    count = 0
    for node in graph.nodes:
        if _can_propagate(graph, node):
            count += _propagate_forward(graph, node)
    for node in reversed(graph.nodes):
        if get_operator(node) == "QuantizeLinear":
            count += _propagate_backward(graph, node)
    if not count:
        return []
    graph.remove_unused()
    return [Change("quantize_data_movement", count)]


def _can_propagate(graph: Graph, node: Node) -> bool:
    if get_operator(node) == "MaxPool" and graph.opset < 12:
        return False  # before opset 12 MaxPool has no 8-bit types
    return get_operator(node) in PROPAGATED_OPS and len(node.outputs) == 1


def _propagate_forward(graph: Graph, node: Node) -> bool:
    source, output = find_quantized_source(node.inputs[0]), node.outputs[0]
    readers = [n for n in list_consumers(output) if get_operator(n) != "QuantizeLinear"]
    if source is None or not _is_per_tensor_8_bit(source):
        return False
    if not readers or output.is_graph_output():
        return False
    real = _insert_q_dq(graph, output, source, node)
    for use in list(output.uses()):
        if use.node in readers:
            use.node.replace_input_with(use.idx, real)
    return True


def _propagate_backward(graph: Graph, node: Node) -> int:
    """Carry a quantizer before the data movement that it follows; the number of new pairs."""
    count, found = 0, read_quantizer(node, node.outputs[0])
    while found is not None and _is_per_tensor_8_bit(found):
        value = node.inputs[0]
        movement = value.producer() if value is not None else None
        if (
            movement is None
            or not _can_propagate(graph, movement)
            or find_quantized_result(movement.outputs[0]) is None
        ):
            break
        before = movement.inputs[0]
        maker = before.producer() if before is not None else None
        if before is None or maker is None or get_operator(maker) == "DequantizeLinear":
            break
        if list_consumers(before) != [movement] or before.is_graph_output():
            break
        real = _insert_q_dq(graph, before, found, maker)
        movement.replace_input_with(0, real)
        count += 1
        dequantizer = real.producer()
        assert dequantizer is not None
        integers = dequantizer.inputs[0]
        quantizer = integers.producer() if integers is not None else None
        assert quantizer is not None
        node = quantizer
    return count


def _is_per_tensor_8_bit(tensor: QuantizedTensor) -> bool:
    return tensor.params.axis is None and tensor.params.qtype.bits == 8


def _insert_q_dq(graph: Graph, value: Value, tensor: QuantizedTensor, after: Node) -> Value:
    """Insert a QuantizeLinear and a DequantizeLinear of the value; the dequantized value."""
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
        dtype=FLOAT32,
        shape_like=value,
    )
