"""Which constant operands does no runtime take, whatever arrives beside them?

ONNX's checker does not look at them, nor ONNX Runtime before it runs the node; the passes rely on what holds here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.errors import ModelError
from ptq.nodes import Node, attributes, constant, operator

_AXES = 2**31
"""ONNX Runtime takes an axis modulo twice as many."""
_PADDINGS = ("NOTSET", "SAME_LOWER", "SAME_UPPER", "VALID")


def require_wellformed(node: Node) -> None:
    """Refuse a node whose constants cannot mean anything to it.

    Raises:
        ModelError: It is one; the text names it.
    """
    op = operator(node)
    rule = _RULES.get("Reduce" if op.startswith("Reduce") else op)
    fault = _attribute(node) or (None if rule is None else rule(node))
    if fault is not None:
        raise ModelError(f"{op} {node.name} {fault}; export the model again")


def _constants(node: Node) -> list[NDArray[Any] | None]:
    """The operands, None for those that are absent or no constants; five or more."""
    return [*map(constant, node.inputs), *[None] * 5]


def _attribute(node: Node) -> str | None:
    attrs = attributes(node)
    axis, padding = attrs.get("axis", 0), attrs.get("auto_pad", "NOTSET")
    if isinstance(axis, int) and abs(axis) >= _AXES:
        return f"has axis {axis}"
    return f"has auto_pad {padding}" if padding not in _PADDINGS else None


def _batch_normalization(node: Node) -> str | None:
    shapes = [array.shape for array in _constants(node)[1:] if array is not None]
    if len({*shapes}) < 2 and all(len(shape) == 1 and shape[0] for shape in shapes):
        return None
    return f"has parameters of shapes {_listed(shapes)}"


def _convolution(node: Node) -> str | None:
    weight = _constants(node)[1]
    if weight is not None and weight.ndim < 3:
        return f"has weights of shape {[*weight.shape]}, without a kernel"
    return None


def _gemm(node: Node) -> str | None:
    _, weight, summand, *_ = _constants(node)
    if weight is None:
        return None
    if weight.ndim != 2:
        return f"has weights of shape {[*weight.shape]}, which are no matrix"
    columns = weight.shape[0 if attributes(node).get("transB") else 1]
    if summand is None or (summand.ndim < 3 and summand.shape[-1:] in ((), (1,), (columns,))):
        return None
    return f"adds a C of shape {[*summand.shape]} to {columns} columns"


def _pad(node: Node) -> str | None:
    _, pads, _, axes, *_ = _constants(node)
    if pads is None or (axes is None and pads.size % 2 == 0):
        return None
    if axes is None:
        return f"has {pads.size} pads, of which half are begins"
    if axes.ndim == 1 and pads.size == 2 * axes.size:
        return None
    return f"has pads of shape {[*pads.shape]} for axes of shape {[*axes.shape]}"


def _reduction(node: Node) -> str | None:
    axes = _constants(node)[1]
    return f"has axes of shape {[*axes.shape]}" if axes is not None and axes.ndim != 1 else None


def _resize(node: Node) -> str | None:
    _, _, scales, sizes, *_ = _constants(node)
    if scales is not None and not (np.isfinite(scales) & (scales > 0)).all():
        return f"scales by {[*map(float, scales.reshape(-1))]}"
    if sizes is not None and (sizes < 0).any():
        return f"has sizes {[*map(int, sizes.reshape(-1))]}"
    return None


def _slice(node: Node) -> str | None:
    shapes = [array.shape for array in _constants(node)[1:] if array is not None]
    if len({*shapes}) < 2 and all(len(shape) == 1 for shape in shapes):
        return None
    return f"cuts by operands of shapes {_listed(shapes)}"


def _listed(shapes: list[tuple[int, ...]]) -> str:
    return ", ".join(str([*shape]) for shape in shapes)


_RULES: Mapping[str, Callable[[Node], str | None]] = {
    "BatchNormalization": _batch_normalization,
    "Conv": _convolution,
    "ConvTranspose": _convolution,
    "Gemm": _gemm,
    "Pad": _pad,
    "Reduce": _reduction,
    "Resize": _resize,
    "Slice": _slice,
}
