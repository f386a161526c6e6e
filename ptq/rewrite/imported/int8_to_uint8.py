"""Moves int8 activations to uint8 where both types meet: q + 128 and z + 128 stand for the same real values.

ONNX Runtime's QLinear operators want all activations of one type. NNCF gives uint8 to what a ReLU leaves and int8 to
the rest; only all in uint8 can they become QLinear operators, and with uint8 weights int8 activations cannot either.
"""

from __future__ import annotations

import numpy as np

from ptq.core.opspec import Role
from ptq.model.graph import Graph
from ptq.model.node import Node, Value, constant, consumers, name_of, operator
from ptq.model.qdq_units import Quantized, Unit, unit

_SHIFT = 128


def unsigned_activations(graph: Graph) -> Graph:
    """The same real function with every int8 activation in uint8, if an operator has both; else the graph itself."""
    units = [found for node in graph.nodes if (found := unit(node)) is not None]
    if not any(_mixed(found) for found in units):
        return graph
    moved = graph.copy()
    held = _held(moved)
    for node in moved.nodes:
        if operator(node) != "QuantizeLinear":
            continue
        readers = consumers(node.outputs[0])
        around = [node, *readers]
        if node.outputs[0].is_graph_output() or not all(map(_int8, around)):
            continue
        if all(operator(reader) == "DequantizeLinear" for reader in readers):
            _move_zero_points(moved, around)
            node.outputs[0].type = node.inputs[2].type if node.inputs[2] is not None else None
    for node in held:
        if _int8(node):
            _move_constant(moved, node)
    moved.sweep()
    return moved


def _mixed(found: Unit) -> bool:
    """Whether an operator has activations of both types, or int8 ones beside a uint8 weight."""
    signs: dict[Role, set[bool]] = {Role.ACTIVATION: set(), Role.WEIGHT: set(), Role.BIAS: set()}
    for position, operand in enumerate(found.inputs):
        if isinstance(operand, Quantized):
            signs[found.spec.role(position)].add(operand.params.qtype.signed)
    activations = signs[Role.ACTIVATION]
    activations |= {output.params.qtype.signed for output in found.outputs if output is not None}
    return len(activations) == 2 or (activations == {True} and False in signs[Role.WEIGHT])


def _held(graph: Graph) -> list[Node]:
    """The DequantizeLinear of constants that stand where an activation may."""
    found: dict[Node, None] = {}
    for node in graph.nodes:
        told = unit(node)
        for position, value in enumerate(node.inputs if told is not None else ()):
            maker = value.producer() if value is not None else None
            if told is None or maker is None or told.spec.role(position) is not Role.ACTIVATION:
                continue
            if operator(maker) == "DequantizeLinear" and constant(maker.inputs[0]) is not None:
                found[maker] = None
    return list(found)


def _int8(quantizer: Node) -> bool:
    array = constant(quantizer.inputs[2]) if len(quantizer.inputs) > 2 else None
    return array is not None and array.dtype == np.int8 and array.size == 1


def _move_zero_points(graph: Graph, quantizers: list[Node]) -> None:
    for quantizer in quantizers:
        quantizer.replace_input_with(2, _shifted(graph, quantizer.inputs[2]))


def _move_constant(graph: Graph, dequantizer: Node) -> None:
    for position in (0, 2):
        dequantizer.replace_input_with(position, _shifted(graph, dequantizer.inputs[position]))


def _shifted(graph: Graph, value: Value | None) -> Value:
    array = constant(value)
    assert value is not None
    assert array is not None
    unsigned = (array.astype(np.int16) + _SHIFT).astype(np.uint8)
    return graph.add_constant(unsigned, f"{name_of(value)}_unsigned")
