"""Layout of the constant weight of Conv, ConvTranspose, Gemm and MatMul: the one place that knows it.

Conv, QLinearConv        (outputs, inputs / groups, kernel…)
ConvTranspose            (inputs, outputs / groups, kernel…)
Gemm, MatMul             see matrix_layout
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.opspec import BIAS_INPUT, WEIGHT_INPUT
from ptq.model.node import (
    Node,
    get_attributes,
    get_constant_shape,
    get_dtype,
    get_onnx_operator,
    get_operator,
)
from ptq.model.weights.matrix_layout import (
    get_matrix_channel_axis,
    is_single_channel,
    view_columns,
    view_input_output_matrix,
)

_CONV_AXES = {"Conv": 0, "QLinearConv": 0, "ConvTranspose": 1}
_MATRIX_OPS = frozenset(["Gemm", "MatMul", "MatMulIntegerToFloat", "QGemm", "QLinearMatMul"])


def get_channel_axis(node: Node, rank: int) -> int | None:
    """Axis of the weight along which its output channels lie; None for an operator without weight layout."""
    op = get_onnx_operator(node)
    if op in _MATRIX_OPS:
        return get_matrix_channel_axis(get_attributes(node), rank)
    return _CONV_AXES.get(op)


def view_summation_order_matrix(node: Node, weight: NDArray[Any]) -> NDArray[Any] | None:
    """The weight with K in the order in which ONNX Runtime adds products, shape (…, K, output channels).

    K runs over the positions of a Conv's window, and fastest over the channels of a group.

    Returns:
        None if products are not added in pairs of neighbours: a depthwise Conv, and any operator but Conv, Gemm and
        MatMul.
    """
    op, attributes = get_onnx_operator(node), get_attributes(node)
    if op in _MATRIX_OPS:
        return view_columns(weight, attributes)
    if _CONV_AXES.get(op) != 0 or is_single_channel(weight.shape, attributes.get("group", 1)):
        return None
    return np.moveaxis(weight, 1, -1).reshape(len(weight), -1).T


def build_channel_pair_matrix(node: Node, weight: NDArray[Any]) -> NDArray[Any] | None:
    """The weight with K fastest over the channels of a group, whose odd number is padded: shape (K, output channels).

    OpenVINO's kernels add products in this order, also those of a ConvTranspose. Output channels are the channel axis
    of the weight.

    Returns:
        None for a depthwise Conv, which adds its products one by one, and any operator but Conv and ConvTranspose.
    """
    op, group = get_onnx_operator(node), get_attributes(node).get("group", 1)
    axis = _CONV_AXES.get(op)
    if axis is None or (axis == 0 and is_single_channel(weight.shape, group)):
        return None
    if axis == 0:
        by_channel = np.moveaxis(weight, 0, -1)[None]
    else:
        by_channel = np.moveaxis(weight.reshape(group, -1, *weight.shape[1:]), 2, -1)
    by_position = np.moveaxis(by_channel, 1, -2)
    padding = [(0, 0)] * by_position.ndim
    padding[-2] = (0, by_position.shape[-2] % 2)
    return np.pad(by_position, padding).reshape(-1, by_position.shape[-1])


def scale_output_channels(
    node: Node, weight: NDArray[Any], factors: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The weight of a Conv, ConvTranspose or Gemm times one factor for each output channel, or one for all (0-d)."""
    if factors.ndim == 0:
        return weight * factors
    axis = get_channel_axis(node, weight.ndim) or 0
    # A ConvTranspose has its groups along the first axis; in other layers the channel axis holds those of all groups.
    groups = count_output_channels(node, weight.shape) // weight.shape[axis]
    by_group = weight.reshape(groups, -1, *weight.shape[1:])
    shape = [groups] + [1] * weight.ndim
    shape[axis + 1] = -1
    return (by_group * factors.reshape(shape)).reshape(weight.shape)


def count_output_channels(node: Node, shape: tuple[int, ...]) -> int:
    """Number of output channels of a node whose weight has this shape.

    For an operator without weight layout, such as InstanceNormalization, this is the length of the first axis.
    """
    groups = get_attributes(node).get("group", 1) if get_operator(node) == "ConvTranspose" else 1
    return int(shape[get_channel_axis(node, len(shape)) or 0] * groups)


def count_summed_inputs(node: Node, shape: tuple[int, ...]) -> int:
    """Number of products that a Conv, Gemm or MatMul adds for one output value, from the shape of its weight."""
    if get_operator(node) == "Conv":
        return prod(shape[1:])
    return shape[-1 if get_attributes(node).get("transB") else -2]


def view_output_channels(node: Node, weight: NDArray[Any]) -> NDArray[Any]:
    """View of the weight of a Conv or Gemm with shape (output channels, values of a channel)."""
    if get_operator(node) == "Gemm":
        return view_input_output_matrix(weight, get_attributes(node)).T
    return weight.reshape(len(weight), -1)


def view_input_channels(node: Node, weight: NDArray[Any], width: int) -> NDArray[Any]:
    """View of the weight of a Conv or Gemm with shape (groups, outputs, channels of a group, values).

    Args:
        node: The Conv or Gemm.
        weight: Array in the layout of its weight.
        width: Inputs of a Gemm that belong to one channel; more than 1 after a Flatten. A Conv does not use it.
    """
    attributes = get_attributes(node)
    if get_operator(node) == "Gemm":
        by_output = view_input_output_matrix(weight, attributes).T
        return by_output.reshape(1, len(by_output), -1, width)
    groups = int(attributes.get("group", 1))
    return weight.reshape(groups, len(weight) // groups, weight.shape[1], -1)


def count_input_channels(node: Node, shape: tuple[int, ...]) -> int:
    """Number of input channels of a Conv or Gemm whose weight has this shape."""
    if get_operator(node) == "Gemm":
        return count_summed_inputs(node, shape)
    return int(get_attributes(node).get("group", 1)) * shape[1]


def count_layer_channels(node: Node) -> int | None:
    """Number of output channels of a Conv or plain Gemm with constant float32 weight and bias; else None.

    A plain Gemm has alpha = beta = 1 and no transA. The bias may be absent.
    """
    if get_operator(node) not in ("Conv", "Gemm") or len(node.outputs) != 1:
        return None
    weight, attrs = node.inputs[WEIGHT_INPUT], get_attributes(node)
    shape = get_constant_shape(weight)
    plain = (attrs.get("alpha", 1.0), attrs.get("beta", 1.0), attrs.get("transA", 0)) == (1, 1, 0)
    if weight is None or shape is None or get_dtype(weight) != np.float32:
        return None
    if not plain or not prod(shape):
        return None
    channels = count_output_channels(node, shape)
    bias = node.inputs[BIAS_INPUT] if len(node.inputs) > BIAS_INPUT else None
    if bias is not None and get_constant_shape(bias) != (channels,):
        return None
    return channels
