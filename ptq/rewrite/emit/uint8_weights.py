"""Stores int8 weights as uint8 with zero point 128: (q + 128) − (z + 128) = q − z, the same real weights.

Without VNNI, ONNX Runtime's kernels for uint8 × int8 saturate pairs of products in int16; those for uint8 × uint8
do not. With VNNI uint8 weights give the same integers at about half the speed.
"""

from __future__ import annotations

import numpy as np

from ptq.core.ops import OPS, QLINEAR_FORMS
from ptq.core.opspec import Role
from ptq.model.graph import Graph
from ptq.model.node import Node, Value, constant_of, dtype_of, name_of, operator_of
from ptq.model.qdq_units import quantized_source
from ptq.model.qlinear_inputs import input_positions
from ptq.rewrite.imported.int8_pairs_to_uint8 import pair_moved_to_uint8

_INT8, _UINT8 = np.dtype(np.int8), np.dtype(np.uint8)


def weights_to_uint8(graph: Graph) -> Graph:
    """The same integer function, QDQ or QOperator, its int8 weights beside uint8 activations in uint8."""
    rewritten = graph.copy()
    shifted: dict[str, Value] = {}
    for node in rewritten.nodes:
        place = find_int8_weight(node)
        if place is not None:
            _shift_to_uint8(rewritten, *place, shifted)
    rewritten.remove_unused()
    return rewritten


def find_int8_weight(node: Node) -> tuple[Node, int, int, int] | None:
    """Where an operator's constant int8 weight beside activations that ONNX Runtime computes in uint8 stands.

    Returns:
        The node that reads its integers, and the positions there of these, scale and zero point; None where
        the weight is unsigned or computed, or the activation int8.
    """
    op = operator_of(node)
    if op in QLINEAR_FORMS and QLINEAR_FORMS[op][0].role_of(1) is Role.WEIGHT:
        at = input_positions(QLINEAR_FORMS[op][1])
        zero_point = node.inputs[at["0z"]]
        signed = zero_point is None or dtype_of(zero_point) != _UINT8
        place = (node, at["1q"], at["1s"], at["1z"])
    elif op in OPS and OPS[op].role_of(1) is Role.WEIGHT and len(node.inputs) > 1:
        x, w = quantized_source(node.inputs[0]), quantized_source(node.inputs[1])
        weight = node.inputs[1].producer() if node.inputs[1] is not None else None
        if x is None or w is None or weight is None:
            return None
        writer = x.integers.producer()
        moved = writer is not None and pair_moved_to_uint8(writer) is not None
        signed = x.params.qtype.signed and not moved
        place = (weight, 0, 1, 2)
    else:
        return None
    array = constant_of(place[0].inputs[place[1]])
    return None if signed or array is None or array.dtype != _INT8 else place


def _shift_to_uint8(
    graph: Graph, node: Node, integers: int, scale: int, zero_point: int, done: dict[str, Value]
) -> None:
    scales = constant_of(node.inputs[scale])
    assert scales is not None
    if len(node.inputs) <= zero_point:
        node.resize_inputs(zero_point + 1)
    if node.inputs[zero_point] is None:
        zeros = graph.add_constant(np.zeros(scales.shape, np.int8), f"{node.name}_zero_point")
        node.replace_input_with(zero_point, zeros)
    for position in (integers, zero_point):
        value = node.inputs[position]
        array = constant_of(value)
        assert value is not None
        assert array is not None
        name = name_of(value)
        if name not in done:
            unsigned = (array.astype(np.int16) + 128).astype(np.uint8)
            done[name] = graph.add_constant(unsigned, f"{name}_unsigned")
        node.replace_input_with(position, done[name])
