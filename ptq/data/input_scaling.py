"""The pixel range that a model expects, inferred from its first nodes.

A model that begins with (x − m) / d, in one node or several, normalizes its input itself. Then m and d show whether
pixels are 0 … 255 or 0 … 1. With m near 0 and d near 1, the input may be normalized already, and nothing is inferred.
For a quantized model, the range of its input shows it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptq.model.node import (
    FLOAT_TYPES,
    Node,
    Value,
    get_attributes,
    get_constant,
    get_operator,
    list_consumers,
)
from ptq.model.weights.channel_affine import match_batch_norm_affine

PLAIN, UNIT = 1.0, 1 / 255
RAW_THRESHOLD = 16.0
"""Mean or spread above it: pixels of 0 … 255. Pixels of 0 … 1 and normalized values are far below."""
UNIT_MEAN_RANGE = (0.25, 0.75)
"""Range of the mean of pixels of 0 … 1."""
_TRANSPARENT_OPS = frozenset(["Cast", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"])
_SHAPE_OPS = frozenset(["Shape", "Size"])


def find_pixel_scale(image: Value) -> float | None:
    """Factor for pixels of 0 … 255; None if the model does not determine it.

    Args:
        image: An input of the model that may take images, with channels on any axis.
    """
    a, b = np.ones(1), np.zeros(1)
    value = image
    while (node := _find_only_reader(value)) is not None:
        if get_operator(node) == "QuantizeLinear" and np.all(a == 1) and not np.any(b):
            return _infer_scale_from_range(node)
        affine = (
            (np.ones(1), np.zeros(1))
            if get_operator(node) in _TRANSPARENT_OPS
            else _match_affine(node, value)
        )
        if affine is None or not _is_broadcastable(a.size, affine[0].size, affine[1].size):
            break
        a, b = affine[0] * a, affine[0] * b + affine[1]
        value = node.outputs[0]
    return _infer_scale_from_affine(a, b)


def _infer_scale_from_affine(a: NDArray[np.float64], b: NDArray[np.float64]) -> float | None:
    """Factor inferred from a·x + b = (x − m) / d; None if it is undetermined."""
    if not np.all(a):
        return None
    mean, spread = float(np.median(-b / a)), float(np.median(1 / np.abs(a)))
    if max(abs(mean), spread) >= RAW_THRESHOLD:
        return PLAIN
    stretched = mean == 0 and spread <= 1 / RAW_THRESHOLD
    return UNIT if stretched or UNIT_MEAN_RANGE[0] <= mean <= UNIT_MEAN_RANGE[1] else None


def _infer_scale_from_range(quantizer: Node) -> float | None:
    """Factor inferred from the range of a quantized input; None if it is undetermined."""
    scale = get_constant(quantizer.inputs[1])
    zero = get_constant(quantizer.inputs[2]) if len(quantizer.inputs) > 2 else np.zeros(1, np.uint8)
    if scale is None or zero is None or scale.size != 1 or zero.size != 1:
        return None
    if zero.dtype.kind not in "iu":
        return None
    limits = np.iinfo(zero.dtype)
    lo, hi = (float(scale.item()) * (q - int(zero.item())) for q in (limits.min, limits.max))
    if hi >= RAW_THRESHOLD:
        return PLAIN
    return UNIT if lo == 0 and hi <= 1.25 else None


def _find_only_reader(value: Value) -> Node | None:
    """The only node that reads a value, apart from Shape and Size; None if there is not exactly one."""
    readers = [node for node in list_consumers(value) if get_operator(node) not in _SHAPE_OPS]
    return readers[0] if len(readers) == 1 and not value.is_graph_output() else None


def _match_affine(node: Node, x: Value) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """A node as y = a·x + b with a and b by channel; None if it is not of this form."""
    normalization = match_batch_norm_affine(node)
    if normalization is not None:
        return normalization.a.reshape(-1), normalization.b.reshape(-1)
    if get_operator(node) == "Conv":
        return _match_depthwise(node)
    if get_operator(node) not in ("Add", "Sub", "Mul", "Div") or node.inputs[0] is node.inputs[1]:
        return None
    first = node.inputs[0] is x
    constant = get_constant(node.inputs[1 if first else 0])
    if constant is None or constant.dtype not in FLOAT_TYPES or constant.size not in (1, 3):
        return None
    c, one, zero = constant.astype(np.float64).reshape(-1), np.ones(1), np.zeros(1)
    match get_operator(node):
        case "Add":
            return one, c
        case "Mul":
            return c, zero
        case "Sub":
            return (one, -c) if first else (-one, c)
    return (1 / c, zero) if first and np.all(c) else None


def _match_depthwise(conv: Node) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """A depthwise 1×1 Conv as y = a·x + b; a BatchNormalization may have become such a Conv."""
    weight = get_constant(conv.inputs[1])
    bias = get_constant(conv.inputs[2]) if len(conv.inputs) > 2 else np.zeros(1)
    if weight is None or bias is None:
        return None
    if (weight.size,) != weight.shape[:1] or weight.size != get_attributes(conv).get("group", 1):
        return None
    return weight.astype(np.float64).reshape(-1), bias.astype(np.float64).reshape(-1)


def _is_broadcastable(*counts: int) -> bool:
    """Whether arrays of these sizes broadcast: each has one value, or one value for each channel."""
    return len(set(counts) - {1}) <= 1
