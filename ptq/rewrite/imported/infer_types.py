"""Element types and shapes of tensors in quantized graphs, also behind operators that ONNX does not define."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptq.core.ops import QLINEAR_FORMS
from ptq.model.graph import Graph
from ptq.model.node import Value, declare_dtype, get_dtype, get_operator, get_spec
from ptq.model.qdq.qdq_units import infer_implied_type
from ptq.model.qdq.qlinear_inputs import list_input_positions
from ptq.model.session.runtime_types import add_runtime_types
from ptq.rewrite.change import Change

QLINEAR_ZERO_POINTS = {
    op: (place["yz"], min(at for name, at in place.items() if name[-1] == "q"))
    for op, place in ((op, list_input_positions(form)) for op, (_, form) in QLINEAR_FORMS.items())
    if "yz" in place
}
"""Positions of the output's zero point and of the first integers, whose type a missing zero point has."""


def infer_missing_types(graph: Graph) -> list[Change]:
    """Add what ONNX's shape inference finds if a type or shape is missing, in place."""
    values = [value for node in graph.nodes for value in node.outputs]
    if any(value.dtype is None or value.shape is None for value in values):
        graph.replace_model(graph.with_shapes())
    return []


def declare_integer_types(graph: Graph) -> list[Change]:
    """Declare element types behind operators that ONNX's shape inference does not know, in place.

    The nodes are sorted first. If a type is still missing afterwards, shape inference runs again, then that of ONNX
    Runtime.
    """
    graph.sort()
    for node in graph.nodes:
        op, output = get_operator(node), node.outputs[0]
        if op == "QuantizeLinear":
            zero_point = node.inputs[2] if len(node.inputs) > 2 else None
            _copy_dtype(output, zero_point, infer_implied_type(node))
        elif op in QLINEAR_ZERO_POINTS:
            position, first = QLINEAR_ZERO_POINTS[op]
            zero_point = node.inputs[position] if position < len(node.inputs) else None
            _copy_dtype(output, node.inputs[first] if zero_point is None else zero_point, None)
        elif (spec := get_spec(node)) is not None and spec.moves_integers:
            for copy in node.outputs:
                _copy_dtype(copy, node.inputs[0], None)
    if any(value.dtype is None for node in graph.nodes for value in node.outputs):
        graph.replace_model(graph.with_shapes())
        add_runtime_types(graph)
    return []


def _copy_dtype(value: Value, model: Value | None, otherwise: np.dtype[Any] | None) -> None:
    dtype = get_dtype(model) if model is not None else otherwise
    if dtype is not None:
        declare_dtype(value, dtype)
