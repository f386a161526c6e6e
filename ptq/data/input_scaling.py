"""Which pixel values does a model want, as far as its first nodes say it?

A model that begins with (x − m) / d, in whatever pieces, normalizes by itself: m and d tell the values apart,
which are 0 … 255, 0 … 1, or normalized already (m near 0, d near 1, of which nothing is concluded). Of a quantized
model the range of its input tells them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptq.model.channel_affine import batch_norm_affine
from ptq.model.node import (
    FLOAT_TYPES,
    Node,
    Value,
    attributes_of,
    constant_of,
    consumers_of,
    operator_of,
)

PLAIN, UNIT = 1.0, 1 / 255
RAW_THRESHOLD = 16.0
"""Of 0 … 255 a mean or a spread is far above it, of 0 … 1 and of normalized values far below."""
UNIT_MEAN_RANGE = (0.25, 0.75)
"""Where the mean of 0 … 1 lies."""
_TRANSPARENT_OPS = frozenset(["Cast", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"])
_SHAPE_OPS = frozenset(["Shape", "Size"])


def pixel_scale(image: Value) -> float | None:
    """What pixels of 0 … 255 are to be multiplied by; None where the model does not say.

    Args:
        image: An input of the model that may take images, channels on any axis.
    """
    a, b = np.ones(1), np.zeros(1)
    value = image
    while (node := _only_reader(value)) is not None:
        if operator_of(node) == "QuantizeLinear" and np.all(a == 1) and not np.any(b):
            return _scale_from_range(node)
        step = (
            (np.ones(1), np.zeros(1))
            if operator_of(node) in _TRANSPARENT_OPS
            else _match_affine(node, value)
        )
        if step is None or not _is_broadcastable(a.size, step[0].size, step[1].size):
            break
        a, b = step[0] * a, step[0] * b + step[1]
        value = node.outputs[0]
    return _scale_from_affine(a, b)


def _scale_from_affine(a: NDArray[np.float64], b: NDArray[np.float64]) -> float | None:
    """What is concluded from a·x + b = (x − m) / d."""
    if not np.all(a):
        return None
    mean, spread = float(np.median(-b / a)), float(np.median(1 / np.abs(a)))
    if max(abs(mean), spread) >= RAW_THRESHOLD:
        return PLAIN
    stretched = mean == 0 and spread <= 1 / RAW_THRESHOLD
    return UNIT if stretched or UNIT_MEAN_RANGE[0] <= mean <= UNIT_MEAN_RANGE[1] else None


def _scale_from_range(quantizer: Node) -> float | None:
    """What is concluded from the range of an input's integers."""
    scale = constant_of(quantizer.inputs[1])
    zero = constant_of(quantizer.inputs[2]) if len(quantizer.inputs) > 2 else np.zeros(1, np.uint8)
    if scale is None or zero is None or scale.size != 1 or zero.size != 1:
        return None
    if zero.dtype.kind not in "iu":
        return None
    limits = np.iinfo(zero.dtype)
    lo, hi = (float(scale.item()) * (q - int(zero.item())) for q in (limits.min, limits.max))
    if hi >= RAW_THRESHOLD:
        return PLAIN
    return UNIT if lo == 0 and hi <= 1.25 else None


def _only_reader(value: Value) -> Node | None:
    """The node that alone reads a value, but for questions after its shape."""
    readers = [node for node in consumers_of(value) if operator_of(node) not in _SHAPE_OPS]
    return readers[0] if len(readers) == 1 and not value.is_graph_output() else None


def _match_affine(node: Node, x: Value) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """A node as y = a·x + b; None where it is something else, or its constants are more than one a channel."""
    normalization = batch_norm_affine(node)
    if normalization is not None:
        return normalization.a.reshape(-1), normalization.b.reshape(-1)
    if operator_of(node) == "Conv":
        return _match_depthwise(node)
    if operator_of(node) not in ("Add", "Sub", "Mul", "Div") or node.inputs[0] is node.inputs[1]:
        return None
    first = node.inputs[0] is x
    known = constant_of(node.inputs[1 if first else 0])
    if known is None or known.dtype not in FLOAT_TYPES or known.size not in (1, 3):
        return None
    c, one, zero = known.astype(np.float64).reshape(-1), np.ones(1), np.zeros(1)
    match operator_of(node):
        case "Add":
            return one, c
        case "Mul":
            return c, zero
        case "Sub":
            return (one, -c) if first else (-one, c)
    return (1 / c, zero) if first and np.all(c) else None


def _match_depthwise(conv: Node) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """A depthwise Conv of one tap, which a BatchNormalization may have become, as y = a·x + b."""
    weight = constant_of(conv.inputs[1])
    bias = constant_of(conv.inputs[2]) if len(conv.inputs) > 2 else np.zeros(1)
    if weight is None or bias is None:
        return None
    if (weight.size,) != weight.shape[:1] or weight.size != attributes_of(conv).get("group", 1):
        return None
    return weight.astype(np.float64).reshape(-1), bias.astype(np.float64).reshape(-1)


def _is_broadcastable(*counts: int) -> bool:
    """Whether so many values fit each other: one, or one a channel."""
    return len(set(counts) - {1}) <= 1
