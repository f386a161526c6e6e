"""Layout of the weight of Conv, Gemm and MatMul: the one place that knows it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.model.node import Node, attributes_of, constant_of, operator_of


def output_channel_view(node: Node, weight: NDArray[Any]) -> NDArray[Any]:
    """The weight by output channel, shape (channels, others); a view."""
    turned = (
        weight.T
        if operator_of(node) == "Gemm" and not attributes_of(node).get("transB")
        else weight
    )
    return turned.reshape(len(turned), -1)


def input_channel_view(node: Node, weight: NDArray[Any], width: int) -> NDArray[Any]:
    """The weight by input channel, shape (groups, outputs, channels of a group, others); a view."""
    if operator_of(node) == "Gemm":
        turned = weight if attributes_of(node).get("transB") else weight.T
        return turned.reshape(1, len(turned), -1, width)
    groups = int(attributes_of(node).get("group", 1))
    return weight.reshape(groups, len(weight) // groups, weight.shape[1], -1)


def layer_channels(node: Node) -> int | None:
    """The output channels of a layer whose weight and bias are constants of its own; None for other nodes."""
    if operator_of(node) not in ("Conv", "Gemm") or len(node.outputs) != 1:
        return None
    weight, attrs = constant_of(node.inputs[1]), attributes_of(node)
    plain = (attrs.get("alpha", 1.0), attrs.get("beta", 1.0), attrs.get("transA", 0)) == (1, 1, 0)
    if weight is None or weight.dtype != np.float32 or not plain or not weight.size:
        return None
    channels = len(output_channel_view(node, weight))
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        bias = constant_of(node.inputs[2])
        if bias is None or bias.shape != (channels,):
            return None
    return channels
