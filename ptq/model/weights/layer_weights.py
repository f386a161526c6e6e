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
    attributes_of,
    constant_shape,
    dtype_of,
    onnx_operator_of,
    operator_of,
)
from ptq.model.weights.matrix_layout import input_output_matrix, matrix_channel_axis

_CONV_AXES = {"Conv": 0, "QLinearConv": 0, "ConvTranspose": 1}
_MATRIX_OPS = frozenset(["Gemm", "MatMul", "MatMulIntegerToFloat", "QGemm", "QLinearMatMul"])


def channel_axis(node: Node, rank: int) -> int | None:
    """Axis of the weight along which its output channels lie; None for an operator without weight layout."""
    op = onnx_operator_of(node)
    if op in _MATRIX_OPS:
        return matrix_channel_axis(attributes_of(node), rank)
    return _CONV_AXES.get(op)


def summation_order_matrix(node: Node, weight: NDArray[Any]) -> NDArray[Any] | None:
    """The weight with K in the order in which ONNX Runtime adds products, shape (…, K, output channels).

    K runs over the positions of a Conv's window, and fastest over the channels of a group.

    Returns:
        None if products are not added in pairs of neighbours: products of vectors, a depthwise Conv, and any operator
        but Conv, Gemm and MatMul.
    """
    op, attributes = onnx_operator_of(node), attributes_of(node)
    if op in _MATRIX_OPS:
        return input_output_matrix(weight, attributes) if weight.ndim > 1 else None
    depthwise = weight.shape[1:2] == (1,) and len(weight) == attributes.get("group", 1)
    if _CONV_AXES.get(op) != 0 or depthwise:
        return None
    return np.moveaxis(weight, 1, -1).reshape(len(weight), -1).T


def channel_pair_matrix(node: Node, weight: NDArray[Any]) -> NDArray[Any] | None:
    """The weight with K fastest over the channels of a group, whose odd number is padded: shape (K, output channels).

    OpenVINO's kernels add products in this order, also those of a ConvTranspose. Output channels are the channel axis
    of the weight.

    Returns:
        None for a depthwise Conv, which adds its products one by one, and any operator but Conv and ConvTranspose.
    """
    op, group = onnx_operator_of(node), attributes_of(node).get("group", 1)
    axis = _CONV_AXES.get(op)
    if axis is None or (axis == 0 and weight.shape[1] == 1 and len(weight) == group):
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
    axis = channel_axis(node, weight.ndim) or 0
    # A ConvTranspose has its groups along the first axis; in other layers the channel axis holds those of all groups.
    groups = output_channel_count(node, weight.shape) // weight.shape[axis]
    by_group = weight.reshape(groups, -1, *weight.shape[1:])
    shape = [groups] + [1] * weight.ndim
    shape[axis + 1] = -1
    return (by_group * factors.reshape(shape)).reshape(weight.shape)


def output_channel_count(node: Node, shape: tuple[int, ...]) -> int:
    """Number of output channels of a node whose weight has this shape.

    For an operator without weight layout, such as InstanceNormalization, this is the length of the first axis.
    """
    groups = attributes_of(node).get("group", 1) if operator_of(node) == "ConvTranspose" else 1
    return int(shape[channel_axis(node, len(shape)) or 0] * groups)


def summed_input_count(node: Node, shape: tuple[int, ...]) -> int:
    """Number of products that a Conv, Gemm or MatMul adds for one output value, from the shape of its weight."""
    if operator_of(node) == "Conv":
        return prod(shape[1:])
    return shape[-1 if attributes_of(node).get("transB") else -2]


def output_channel_view(node: Node, weight: NDArray[Any]) -> NDArray[Any]:
    """View of the weight of a Conv or Gemm with shape (output channels, values of a channel)."""
    if operator_of(node) == "Gemm":
        return input_output_matrix(weight, attributes_of(node)).T
    return weight.reshape(len(weight), -1)


def input_channel_view(node: Node, weight: NDArray[Any], width: int) -> NDArray[Any]:
    """View of the weight of a Conv or Gemm with shape (groups, outputs, channels of a group, values).

    Args:
        node: The Conv or Gemm.
        weight: Array in the layout of its weight.
        width: Inputs of a Gemm that belong to one channel; more than 1 after a Flatten. A Conv does not use it.
    """
    attributes = attributes_of(node)
    if operator_of(node) == "Gemm":
        by_output = input_output_matrix(weight, attributes).T
        return by_output.reshape(1, len(by_output), -1, width)
    groups = int(attributes.get("group", 1))
    return weight.reshape(groups, len(weight) // groups, weight.shape[1], -1)


def input_channel_count(node: Node, shape: tuple[int, ...]) -> int:
    """Number of input channels of a Conv or Gemm whose weight has this shape."""
    if operator_of(node) == "Gemm":
        return summed_input_count(node, shape)
    return int(attributes_of(node).get("group", 1)) * shape[1]


def layer_channels(node: Node) -> int | None:
    """Number of output channels of a Conv or plain Gemm with constant float32 weight and bias; else None.

    A plain Gemm has alpha = beta = 1 and no transA. The bias may be absent.
    """
    if operator_of(node) not in ("Conv", "Gemm") or len(node.outputs) != 1:
        return None
    weight, attrs = node.inputs[WEIGHT_INPUT], attributes_of(node)
    shape = constant_shape(weight)
    plain = (attrs.get("alpha", 1.0), attrs.get("beta", 1.0), attrs.get("transA", 0)) == (1, 1, 0)
    if weight is None or shape is None or dtype_of(weight) != np.float32:
        return None
    if not plain or not prod(shape):
        return None
    channels = output_channel_count(node, shape)
    bias = node.inputs[BIAS_INPUT] if len(node.inputs) > BIAS_INPUT else None
    if bias is not None and constant_shape(bias) != (channels,):
        return None
    return channels
