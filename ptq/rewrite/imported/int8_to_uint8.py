"""Moves int8 activations to uint8 where both types meet: q + 128 and z + 128 stand for the same real values.

ONNX Runtime's QLinear operators want all activations of one type. NNCF gives uint8 to what a ReLU leaves and int8 to
the rest; only all in uint8 can they become QLinear operators, and with uint8 weights int8 activations cannot either.
"""

from __future__ import annotations

import numpy as np

from ptq.core.opspec import Role
from ptq.model.graph import Graph
from ptq.model.node import Node, Value, constant_of, consumers_of, name_of, operator_of
from ptq.model.qdq_units import QuantizedOp, QuantizedTensor, quantized_op

_UINT8_OFFSET = 128


def activations_to_uint8(graph: Graph) -> Graph:
    """The same real function with every int8 activation in uint8, if an operator has both; else the graph itself."""
    units = [found for node in graph.nodes if (found := quantized_op(node)) is not None]
    if not any(_has_mixed_signedness(found) for found in units):
        return graph
    moved = graph.copy()
    held = _constant_activations(moved)
    for node in moved.nodes:
        if operator_of(node) != "QuantizeLinear":
            continue
        readers = consumers_of(node.outputs[0])
        around = [node, *readers]
        if node.outputs[0].is_graph_output() or not all(map(_has_int8_zero_point, around)):
            continue
        if all(operator_of(reader) == "DequantizeLinear" for reader in readers):
            _shift_zero_points(moved, around)
            node.outputs[0].type = node.inputs[2].type if node.inputs[2] is not None else None
    for node in held:
        if _has_int8_zero_point(node):
            _shift_constant(moved, node)
    moved.remove_unused()
    return moved


def _has_mixed_signedness(found: QuantizedOp) -> bool:
    """Whether an operator has activations of both types, or int8 ones beside a uint8 weight."""
    signs: dict[Role, set[bool]] = {Role.ACTIVATION: set(), Role.WEIGHT: set(), Role.BIAS: set()}
    for position, operand in enumerate(found.inputs):
        if isinstance(operand, QuantizedTensor):
            signs[found.spec.role_of(position)].add(operand.params.qtype.signed)
    activations = signs[Role.ACTIVATION]
    activations |= {output.params.qtype.signed for output in found.outputs if output is not None}
    return len(activations) == 2 or (activations == {True} and False in signs[Role.WEIGHT])


def _constant_activations(graph: Graph) -> list[Node]:
    """The DequantizeLinear of constants that stand where an activation may."""
    found: dict[Node, None] = {}
    for node in graph.nodes:
        told = quantized_op(node)
        for position, value in enumerate(node.inputs if told is not None else ()):
            maker = value.producer() if value is not None else None
            if told is None or maker is None or told.spec.role_of(position) is not Role.ACTIVATION:
                continue
            if (
                operator_of(maker) == "DequantizeLinear"
                and constant_of(maker.inputs[0]) is not None
            ):
                found[maker] = None
    return list(found)


def _has_int8_zero_point(quantizer: Node) -> bool:
    array = constant_of(quantizer.inputs[2]) if len(quantizer.inputs) > 2 else None
    return array is not None and array.dtype == np.int8 and array.size == 1


def _shift_zero_points(graph: Graph, quantizers: list[Node]) -> None:
    for quantizer in quantizers:
        quantizer.replace_input_with(2, _uint8_constant(graph, quantizer.inputs[2]))


def _shift_constant(graph: Graph, dequantizer: Node) -> None:
    for position in (0, 2):
        dequantizer.replace_input_with(
            position, _uint8_constant(graph, dequantizer.inputs[position])
        )


def _uint8_constant(graph: Graph, value: Value | None) -> Value:
    array = constant_of(value)
    assert value is not None
    assert array is not None
    unsigned = (array.astype(np.int16) + _UINT8_OFFSET).astype(np.uint8)
    return graph.add_constant(unsigned, f"{name_of(value)}_unsigned")
