"""What QLinear operators leave out of their operands and a quantizer needs: zero points, repeated scales, axes."""

from __future__ import annotations

import numpy as np

from ptq.core.errors import UnsupportedError
from ptq.core.opspec import OpSpec, Role
from ptq.core.types import QuantParams
from ptq.model.axes import get_softmax_axes
from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    get_constant,
    get_dtype,
    get_name,
    get_operator,
    get_shape,
    is_constant,
)
from ptq.model.qdq.qdq_units import read_qparams
from ptq.model.qdq.qlinear_inputs import QuantizedOperand
from ptq.model.weights.layer_weights import get_channel_axis


def with_default_zero_point(graph: Graph, triple: QuantizedOperand) -> QuantizedOperand:
    """The operand with a zero point and with as many scales as zero points."""
    integers, scale, zero_point = triple
    scales, zeros = get_constant(scale), get_constant(zero_point)
    if scales is None or (zero_point is not None and zeros is None):
        return triple
    name = get_name(integers)
    if zeros is None:
        zeros = np.zeros(scales.shape, get_dtype(integers) or np.uint8)
        return integers, scale, graph.add_constant(zeros, f"{name}_zero_point")
    if scales.size == zeros.size:
        return triple
    scales, zeros = np.broadcast_arrays(scales.reshape(-1), zeros.reshape(-1))
    return (
        integers,
        graph.add_constant(scales.copy(), f"{name}_scale"),
        graph.add_constant(zeros.copy(), f"{name}_zero_point"),
    )


def add_default_zero_point(
    graph: Graph, output: tuple[Value, Value | None], first: QuantizedOperand
) -> tuple[Value, Value | None]:
    """The scale and zero point of an output; a missing zero point gets the type of the first operand."""
    scale, zero_point = output
    zeros = get_constant(first[2])
    if zero_point is not None or zeros is None:
        return output
    return scale, graph.add_constant(np.zeros((), zeros.dtype), f"{get_name(scale)}_zero_point")


def read_operand_qparams(
    integers: Value, scale: Value, zero_point: Value | None, node: Node
) -> QuantParams:
    """The parameters of an operand.

    Raises:
        UnsupportedError: The scale or zero point is computed, or there are scales for blocks.
    """
    if not is_constant(scale) or (zero_point is not None and not is_constant(zero_point)):
        raise UnsupportedError(
            f"{get_operator(node)} {node.name} computes a scale or zero point; they must be constant"
        )
    params = read_qparams(scale, zero_point, integers)
    if params is None:
        raise UnsupportedError(
            f"{get_operator(node)} {node.name} has block-wise scales, which ptq does not support"
        )
    return params


def infer_weight_axis(spec: OpSpec, index: int, triple: QuantizedOperand, node: Node) -> int | None:
    """The channel axis of a weight with several scales, which QLinear operators do not store; else None.

    Raises:
        UnsupportedError: The weight's rank is unknown.
    """
    scales = get_constant(triple[1])
    if scales is None or scales.size == 1 or spec.role_of(index) is not Role.WEIGHT:
        return None
    array = get_constant(triple[0])
    shape = array.shape if array is not None else get_shape(triple[0])
    if shape is None:
        raise UnsupportedError(f"{get_operator(node)} {node.name} has a weight of unknown rank")
    return get_channel_axis(node, len(shape))


def get_float_softmax_axis(graph: Graph, node: Node) -> int:
    """The axis of the float Softmax.

    Before opset 13 Softmax ran over all axes from ``axis`` on, which is the same only for the last axis.

    Raises:
        UnsupportedError: The axis has another meaning in the opset of the integer form than in the graph's opset.
    """
    axis, several = get_softmax_axes(node)
    if axis != -1 and several != (graph.opset < 13):
        meaning = (
            "several axes, the meaning before opset 13"
            if several
            else "one axis, the meaning from opset 13 on"
        )
        raise UnsupportedError(
            f"{get_operator(node)} {node.name} runs over {meaning}, but the model has opset {graph.opset}"
        )
    return axis
