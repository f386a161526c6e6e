"""Brings a graph that any tool quantized into the shape from which integer operators are read.

ONNX Runtime's optimizer sees more integer operators than stand between a DequantizeLinear and a QuantizeLinear
by the letter: quantizers of Microsoft's domain, weights that are quantized in the graph, clamps that the next
quantizer repeats, biases left float, movements without quantizers of their own. Each is rewritten here as ONNX
Runtime 1.31 does it, so that the integers of the tensors that remain, and their names, are the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ptq.core.ops import OPS, QLINEAR_FORMS
from ptq.model.graph import Graph
from ptq.model.node import (
    MICROSOFT_PREFIX,
    QUANTIZERS,
    Node,
    Value,
    constant_of,
    declare_dtype,
    dtype_of,
    operator_of,
    spec_name,
)
from ptq.model.qdq_units import implied_type
from ptq.model.qlinear_inputs import input_positions
from ptq.rewrite.imported.deduplicate_quantizers import deduplicate_quantizers
from ptq.rewrite.imported.fold_quantized_constants import fold_quantized_constants
from ptq.rewrite.imported.quantize_biases import fuse_matmul_add, quantize_biases
from ptq.rewrite.imported.quantize_data_movement import quantize_data_movement
from ptq.rewrite.imported.remove_redundant_clamps import remove_redundant_clamps
from ptq.rewrite.imported.split_reinterpretation import split_reinterpreted_tensors
from ptq.rewrite.prepare.upgrade_opset import MIN_QDQ_OPSET, upgrade_opset

_QUANTIZERS = tuple(MICROSOFT_PREFIX + kind for kind in QUANTIZERS)
_SHARED_TYPES = (np.dtype(np.int8), np.dtype(np.uint8), np.dtype(np.int32))


def normalize_qdq(graph: Graph, *, biases: bool = True) -> Graph:
    """The same integer function, read as ONNX Runtime reads it; tensors that remain keep their names.

    Args:
        graph: QDQ, QOperator, or a mixture.
        biases: Whether float biases between integers become int32.
    """
    if graph.opset < MIN_QDQ_OPSET and any(map(_is_microsoft_per_channel, graph.nodes)):
        graph = upgrade_opset(graph)[0]
    typed = all(v.dtype is not None and v.shape is not None for n in graph.nodes for v in n.outputs)
    adopted = graph.copy() if typed else graph.with_shapes()
    _use_onnx_domain(adopted)
    _add_default_zero_points(adopted)
    split_reinterpreted_tensors(adopted)
    steps = [
        deduplicate_quantizers,
        fold_quantized_constants,
        remove_redundant_clamps,
        quantize_data_movement,
        fuse_matmul_add,
        quantize_data_movement,
    ]
    for step in [*steps, quantize_biases] if biases else steps:
        step(adopted)
        adopted.remove_unused()  # what is read by nobody would still count as a reader
    adopted.sort()
    _declare_integer_types(adopted)
    known = all(value.dtype is not None for node in adopted.nodes for value in node.outputs)
    return adopted if known else adopted.with_shapes()


def _is_microsoft_per_channel(node: Node) -> bool:
    """Whether it is a quantizer of Microsoft's with a scale a channel, which ONNX's own has from opset 13 on."""
    scales = constant_of(node.inputs[1]) if len(node.inputs) > 1 else None
    return operator_of(node) in _QUANTIZERS and scales is not None and scales.size > 1


def _use_onnx_domain(graph: Graph) -> None:
    """Microsoft's quantizers mean what ONNX's mean; in 8 bits and int32 every opset has them."""
    for node in graph.nodes:
        kind = operator_of(node).removeprefix(MICROSOFT_PREFIX)
        if not operator_of(node).startswith(MICROSOFT_PREFIX) or kind not in QUANTIZERS:
            continue
        zero_point = constant_of(node.inputs[2]) if len(node.inputs) > 2 else None
        if zero_point is None or zero_point.dtype in _SHARED_TYPES:
            node.domain = ""


def _add_default_zero_points(graph: Graph) -> None:
    """Write out the zero point 0 where a quantizer of 8 bits leaves it out; QLinear operators need it."""
    for node in graph.nodes:
        scales = constant_of(node.inputs[1]) if len(node.inputs) > 1 else None
        if operator_of(node) not in QUANTIZERS or scales is None:
            continue
        if len(node.inputs) > 2 and node.inputs[2] is not None:
            continue
        dtype = implied_type(node)
        if dtype in (np.dtype(np.int8), np.dtype(np.uint8)):
            zeros = graph.add_constant(np.zeros(scales.shape, dtype), f"{node.name}_zero_point")
            node.resize_inputs(3)
            node.replace_input_with(2, zeros)


def _declare_integer_types(graph: Graph) -> None:
    """Say the element types that ONNX's inference does not find behind operators it does not know."""
    for node in graph.nodes:
        op, output = operator_of(node), node.outputs[0]
        if op == "QuantizeLinear":
            zero_point = node.inputs[2] if len(node.inputs) > 2 else None
            _copy_dtype(output, zero_point, implied_type(node))
        elif op in QLINEAR_ZERO_POINTS:
            position, first = QLINEAR_ZERO_POINTS[op]
            zero_point = node.inputs[position] if position < len(node.inputs) else None
            _copy_dtype(output, node.inputs[first] if zero_point is None else zero_point, None)
        elif (spec := OPS.get(spec_name(node))) is not None and spec.moves_integers:
            for moved in node.outputs:
                _copy_dtype(moved, node.inputs[0], None)


def _copy_dtype(value: Value, model: Value | None, otherwise: np.dtype[Any] | None) -> None:
    dtype = dtype_of(model) if model is not None else otherwise
    if dtype is not None:
        declare_dtype(value, dtype)


QLINEAR_ZERO_POINTS = {
    op: (place["yz"], min(at for name, at in place.items() if name[-1] == "q"))
    for op, place in ((op, input_positions(form)) for op, (_, form) in QLINEAR_FORMS.items())
    if "yz" in place
}
"""Where the output's zero point stands, and the first integers, whose type it has where it is absent."""
