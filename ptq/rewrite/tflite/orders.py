"""Orders in which the axes of a value are stored, and which operators depend on them.

LiteRT's image operators store channels last.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptq.core.ops import UNARY

Order = tuple[int, ...]
"""The stored axes of a value, each as its number in ONNX: (0, 2, 3, 1) is channels last."""
Shape = tuple[int, ...]

SPATIAL = frozenset(
    [
        "AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "DepthToSpace", "GlobalAveragePool",
        "GlobalMaxPool", "InstanceNormalization", "MaxPool", "Resize linear", "Resize nearest", "SpaceToDepth",
    ]
)  # fmt: skip
"""Operators whose images are stored channels last."""
GLOBAL_POOLS = frozenset(["GlobalAveragePool", "GlobalMaxPool"])
"""Operators that reduce in any order. With three axes they also are means of the features of a sequence."""
KEEPS_ORDER = UNARY | frozenset(
    [
        "Add", "And", "Cast", "Concat", "CumSum", "DequantizeLinear", "Div", "Equal", "Expand", "Gather",
        "GlobalAveragePool", "GlobalMaxPool", "Greater",
        "GreaterOrEqual", "Identity", "LayerNormalization", "Less", "LessOrEqual", "LogSoftmax",
        "LpNormalization", "Max", "Min", "Mul", "Not", "Or", "PRelu", "Pad", "QuantizeLinear", "ReduceL1",
        "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare",
        "Requantize", "Slice", "Softmax", "Split", "Sub", "Sum", "Tile", "Where",
    ]
)  # fmt: skip
"""Operators that work in any order and keep that of their input."""


def is_image_operator(op: str, rank: int) -> bool:
    """Whether an operator stores images of so many axes channels last."""
    return op in SPATIAL and (op not in GLOBAL_POOLS or rank > 3)


def order_channels_last(rank: int) -> Order:
    """The order N, spatial…, C."""
    return (0, *range(2, rank), 1) if rank > 2 else tuple(range(rank))


def order_naturally(rank: int) -> Order:
    """ONNX's own order."""
    return tuple(range(rank))


def permute_shape(shape: Sequence[int], order: Order) -> Shape:
    """A shape, or anything with one entry for each axis, in a stored order."""
    return tuple(shape[axis] for axis in order)
