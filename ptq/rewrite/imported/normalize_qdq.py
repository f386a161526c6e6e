"""Normalization of a graph that any tool quantized: the ordered list of rewrites before its operators are read.

ONNX Runtime's optimizer finds more integer operators than those between a DequantizeLinear and a QuantizeLinear:
quantizers of Microsoft's domain, weights quantized in the graph, clamps that the next quantizer repeats, float
biases, data movement without quantizers. Each rewrite follows ONNX Runtime 1.31, so that the remaining tensors keep
their integers and names.
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
from ptq.rewrite.change import Change, Rewrite
from ptq.rewrite.imported.deduplicate_quantizers import deduplicate_quantizers
from ptq.rewrite.imported.fold_quantized_constants import fold_quantized_constants
from ptq.rewrite.imported.quantize_biases import fuse_matmul_add, quantize_biases
from ptq.rewrite.imported.quantize_data_movement import quantize_data_movement
from ptq.rewrite.imported.remove_redundant_clamps import remove_redundant_clamps
from ptq.rewrite.imported.split_reinterpretation import split_reinterpreted_tensors
from ptq.rewrite.prepare.upgrade_opset import MIN_QDQ_OPSET, upgrade_opset

_QUANTIZERS = tuple(MICROSOFT_PREFIX + kind for kind in QUANTIZERS)
_SHARED_TYPES = (np.dtype(np.int8), np.dtype(np.uint8), np.dtype(np.int32))
"""Types that ONNX's own quantizers have in every opset."""


def normalize_qdq(graph: Graph, *, biases: bool = True) -> Graph:
    """A copy of the graph after the rewrites of `NORMALIZE_QDQ`: the same integer function, as ONNX Runtime reads it.

    Args:
        graph: A graph in QDQ or QOperator form, or a mixture.
        biases: Whether float biases between integers become int32.
    """
    normalized = graph.copy()
    for rewrite in NORMALIZE_QDQ:
        if biases or rewrite is not quantize_biases:
            rewrite(normalized)
    return normalized


def upgrade_microsoft_opset(graph: Graph) -> list[Change]:
    """Upgrade the opset if Microsoft's quantizers have per-channel scales, in place.

    ONNX's own quantizers have them from opset 13 on.
    """
    if graph.opset < MIN_QDQ_OPSET and any(map(_is_microsoft_per_channel, graph.nodes)):
        return upgrade_opset(graph)
    return []


def infer_missing_shapes(graph: Graph) -> list[Change]:
    """Add what ONNX's shape inference finds if a type or shape is missing, in place."""
    values = [value for node in graph.nodes for value in node.outputs]
    if any(value.dtype is None or value.shape is None for value in values):
        graph.replace_model(graph.with_shapes())
    return []


def _is_microsoft_per_channel(node: Node) -> bool:
    """Whether the node is a quantizer of Microsoft's domain with per-channel scales."""
    scales = constant_of(node.inputs[1]) if len(node.inputs) > 1 else None
    return operator_of(node) in _QUANTIZERS and scales is not None and scales.size > 1


def use_onnx_domain(graph: Graph) -> list[Change]:
    """Put quantizers of Microsoft's domain into ONNX's domain, in place.

    Both have the same meaning; for 8 bits and int32 every opset of ONNX has them.
    """
    count = 0
    for node in graph.nodes:
        kind = operator_of(node).removeprefix(MICROSOFT_PREFIX)
        if not operator_of(node).startswith(MICROSOFT_PREFIX) or kind not in QUANTIZERS:
            continue
        zero_point = constant_of(node.inputs[2]) if len(node.inputs) > 2 else None
        if zero_point is None or zero_point.dtype in _SHARED_TYPES:
            node.domain = ""
            count += 1
    return [Change("use_onnx_domain", count)] if count else []


def add_default_zero_points(graph: Graph) -> list[Change]:
    """Add zero point 0 to quantizers of 8 bits that have none, in place; QLinear operators require one."""
    count = 0
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
            count += 1
    return [Change("add_default_zero_points", count)] if count else []


def declare_integer_types(graph: Graph) -> list[Change]:
    """Declare element types behind operators that ONNX's shape inference does not know, in place.

    The nodes are sorted first. If a type is still missing afterwards, shape inference runs again.
    """
    graph.sort()
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
            for copy in node.outputs:
                _copy_dtype(copy, node.inputs[0], None)
    if any(value.dtype is None for node in graph.nodes for value in node.outputs):
        graph.replace_model(graph.with_shapes())
    return []


def _copy_dtype(value: Value, model: Value | None, otherwise: np.dtype[Any] | None) -> None:
    dtype = dtype_of(model) if model is not None else otherwise
    if dtype is not None:
        declare_dtype(value, dtype)


QLINEAR_ZERO_POINTS = {
    op: (place["yz"], min(at for name, at in place.items() if name[-1] == "q"))
    for op, place in ((op, input_positions(form)) for op, (_, form) in QLINEAR_FORMS.items())
    if "yz" in place
}
"""Positions of the output's zero point and of the first integers, whose type a missing zero point has."""

NORMALIZE_QDQ: tuple[Rewrite, ...] = (
    upgrade_microsoft_opset,
    infer_missing_shapes,
    use_onnx_domain,
    add_default_zero_points,
    split_reinterpreted_tensors,
    deduplicate_quantizers,
    fold_quantized_constants,
    remove_redundant_clamps,
    quantize_data_movement,
    fuse_matmul_add,
    quantize_data_movement,  # again, for the Reshapes of the new Gemm nodes
    quantize_biases,
    declare_integer_types,
)
"""All rewrites of a quantized graph, in their order; each removes the nodes that it leaves unused.

A node that nobody uses would still count as a reader.
"""
