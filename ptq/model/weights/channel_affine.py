"""Nodes that compute y = a·x + b with constants a and b by channel.

BatchNormalization (ONNX 9.. in inference):  a = scale / √(var + ε),  b = bias − mean · a.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.model.node import FLOAT_TYPES, Node, Value, get_attributes, get_constant, get_operator


@dataclass(frozen=True, eq=False)
class ChannelAffine:
    """The map y = a·x + b.

    Attributes:
        x: The input.
        a: The factor, 0-d or one entry for each channel (axis 1).
        b: The offset, likewise.
    """

    x: Value
    a: NDArray[np.float64]
    b: NDArray[np.float64]


def match_batch_norm_affine(node: Node) -> ChannelAffine | None:
    """A BatchNormalization as an affine map; None in training mode or if a parameter is not constant."""
    if get_operator(node) != "BatchNormalization" or node.inputs[0] is None:
        return None
    attrs = get_attributes(node)
    parameters = [get_constant(v) for v in node.inputs[1:5]]
    extra_outputs = any(v.uses() or v.is_graph_output() for v in node.outputs[1:])
    if attrs.get("training_mode", 0) or extra_outputs or any(p is None for p in parameters):
        return None
    scale, bias, mean, var = (np.asarray(p, np.float64) for p in parameters)
    with np.errstate(all="ignore"):
        a = scale / np.sqrt(var + attrs.get("epsilon", 1e-5))
    b = bias - mean * a
    return ChannelAffine(node.inputs[0], a, b) if np.all(np.isfinite(a) & np.isfinite(b)) else None


def match_arithmetic_affine(node: Node, rank: int, channels: int) -> ChannelAffine | None:
    """Add, Sub, Mul or Div of a tensor and a constant along axis 1, as an affine map."""
    if get_operator(node) not in ("Add", "Sub", "Mul", "Div"):
        return None
    left, right = (get_constant(v) for v in node.inputs)
    if (left is None) == (right is None):
        return None
    x, constant = (node.inputs[0], right) if left is None else (node.inputs[1], left)
    c = None if constant is None else to_per_channel_constant(constant, rank, channels)
    if x is None or c is None:
        return None
    one, zero = np.ones(()), np.zeros(())
    match node.op_type:
        case "Add":
            return ChannelAffine(x, one, c)
        case "Mul":
            return ChannelAffine(x, c, zero)
        case "Sub":
            return ChannelAffine(x, one, -c) if left is None else ChannelAffine(x, -one, c)
    return ChannelAffine(x, 1 / c, zero) if left is None and np.all(c != 0) else None


def to_per_channel_constant(
    array: NDArray[Any], rank: int, channels: int
) -> NDArray[np.float64] | None:
    """The constant as float64, 0-d or 1-d along axis 1; None if it is not constant along the other axes."""
    if array.dtype not in FLOAT_TYPES or array.ndim > rank:
        return None
    shape = (1,) * (rank - array.ndim) + array.shape
    if array.size == 1:
        return array.reshape(()).astype(np.float64)
    if array.size != channels or shape[1] != channels:
        return None
    return array.reshape(-1).astype(np.float64)
