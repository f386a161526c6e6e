"""Checks of constant operands and attributes that no runtime accepts, whatever the other inputs are.

ONNX's checker does not examine them, and ONNX Runtime does so only when it runs the node. The passes rely on these
checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import ModelError
from ptq.model.graph import Graph
from ptq.model.node import ONNX_DOMAINS, Node, get_attributes, get_constant, get_operator, get_shape
from ptq.model.weights.layer_weights import count_output_channels
from ptq.rewrite.change import Change

_AXIS_LIMIT = 2**31
"""ONNX Runtime computes an axis modulo 2³²."""
_PADDINGS = ("NOTSET", "SAME_LOWER", "SAME_UPPER", "VALID")
_POSITIVE_ATTRIBUTES = ("dilations", "kernel_shape", "strides")


def check_nodes(graph: Graph) -> list[Change]:
    """Refuse a graph with an invalid constant or attribute; nothing is changed.

    Raises:
        ModelError: As for `check_node`.
    """
    for node in graph.nodes:
        check_node(node)
    return []


def check_node(node: Node) -> None:
    """Refuse a node with an invalid constant or attribute.

    Raises:
        ModelError: The node has one; the message names the node and what is wrong.
    """
    op = get_operator(node)
    rule = _RULES.get("Reduce" if op.startswith("Reduce") else op)
    fault = _check_attributes(node) or (None if rule is None else rule(node))
    if fault is not None:
        raise ModelError(f"{op} {node.name} {fault}; export the model again")


def _list_constant_operands(node: Node) -> list[NDArray[Any] | None]:
    """The operands, five or more; None for those that are absent or not constant."""
    return [*map(get_constant, node.inputs), *[None] * 5]


def _check_attributes(node: Node) -> str | None:
    attrs = get_attributes(node)
    axis, padding = attrs.get("axis", 0), attrs.get("auto_pad", "NOTSET")
    if isinstance(axis, int) and abs(axis) >= _AXIS_LIMIT:
        return f"has axis {axis}"
    if padding not in _PADDINGS:
        return f"has auto_pad {padding}"
    for name in _POSITIVE_ATTRIBUTES if node.domain in ONNX_DOMAINS else ():
        numbers = attrs.get(name, ())
        if not isinstance(numbers, Sequence) or any(number < 1 for number in numbers):
            return f"has {name} {[*numbers] if isinstance(numbers, Sequence) else numbers}"
    return None


def _check_batch_normalization(node: Node) -> str | None:
    shapes = [array.shape for array in _list_constant_operands(node)[1:] if array is not None]
    if len({*shapes}) < 2 and all(len(shape) == 1 and shape[0] for shape in shapes):
        return None
    return f"has parameters of shapes {_format_shapes(shapes)}"


def _check_clip(node: Node) -> str | None:
    bounds = [array for array in _list_constant_operands(node)[1:3] if array is not None]
    return "has a bound of NaN" if any(np.isnan(array).any() for array in bounds) else None


def _check_conv(node: Node) -> str | None:
    _, weight, bias, *_ = _list_constant_operands(node)
    if weight is not None and weight.ndim < 3:
        return f"has weights of shape {[*weight.shape]}, without kernel axes"
    attrs = get_attributes(node)
    groups, kernel = attrs.get("group", 1), attrs.get("kernel_shape")
    if weight is not None and weight.shape[0] % groups:
        return f"has weights of shape {[*weight.shape]} for {groups} groups"
    if weight is not None and kernel is not None and (*kernel,) != weight.shape[2:]:
        return f"has kernel_shape {[*kernel]} and weights of shape {[*weight.shape]}"
    if weight is None or bias is None:
        return None
    channels = count_output_channels(node, weight.shape)
    if bias.shape != (channels,):
        return f"has a bias of shape {[*bias.shape]} for {channels} channels"
    return None


def _check_conv_transpose(node: Node) -> str | None:
    """Check output_shape too: if it is smaller than the input, ONNX's shape inference gives a wrong shape.

    The inferred shape then has two axes, and runtimes rely on it.
    """
    wanted = get_attributes(node).get("output_shape", ())
    shape = None if node.inputs[0] is None else get_shape(node.inputs[0])
    if shape is not None and any(
        d is not None and n < d for n, d in zip(wanted, shape[2:], strict=False)
    ):
        return (
            f"has output_shape {[*wanted]}, smaller than its input of shape {_format_shape(shape)}; "
            "use pads instead"
        )
    return _check_conv(node)


def _check_gemm(node: Node) -> str | None:
    _, weight, summand, *_ = _list_constant_operands(node)
    if weight is None:
        return None
    if weight.ndim != 2:
        return f"has weights of shape {[*weight.shape]}, which is not a matrix"
    columns = count_output_channels(node, weight.shape)
    if summand is None or (summand.ndim < 3 and summand.shape[-1:] in ((), (1,), (columns,))):
        return None
    return f"adds a C of shape {[*summand.shape]} to {columns} columns"


def _check_pad(node: Node) -> str | None:
    _, pads, _, axes, *_ = _list_constant_operands(node)
    if pads is None or (axes is None and pads.size % 2 == 0):
        return None
    if axes is None:
        return f"has {pads.size} pads, an odd number"
    if axes.ndim == 1 and pads.size == 2 * axes.size:
        return None
    return f"has pads of shape {[*pads.shape]} for axes of shape {[*axes.shape]}"


def _check_reduction(node: Node) -> str | None:
    axes = _list_constant_operands(node)[1]
    return f"has axes of shape {[*axes.shape]}" if axes is not None and axes.ndim != 1 else None


def _check_reshape(node: Node) -> str | None:
    target = _list_constant_operands(node)[1]
    return (
        f"has a target of shape {[*target.shape]}"
        if target is not None and target.ndim != 1
        else None
    )


def _check_resize(node: Node) -> str | None:
    _, _, scales, sizes, *_ = _list_constant_operands(node)
    if scales is not None and not (np.isfinite(scales) & (scales > 0)).all():
        return f"scales by {[*map(float, scales.reshape(-1))]}"
    if sizes is not None and (sizes < 0).any():
        return f"has sizes {[*map(int, sizes.reshape(-1))]}"
    return None


def _check_slice(node: Node) -> str | None:
    shapes = [array.shape for array in _list_constant_operands(node)[1:] if array is not None]
    if len({*shapes}) < 2 and all(len(shape) == 1 for shape in shapes):
        return None
    return f"has operands of shapes {_format_shapes(shapes)}"


def _format_shape(shape: tuple[int | None, ...]) -> str:
    return "×".join("?" if d is None else str(d) for d in shape)


def _check_squeeze(node: Node) -> str | None:
    """Refuse an empty list of axes: ONNX then removes no axis, ONNX Runtime all axes of length 1."""
    axes = _list_constant_operands(node)[1]
    return "has an empty list of axes" if axes is not None and not axes.size else None


def _format_shapes(shapes: list[tuple[int, ...]]) -> str:
    return ", ".join(str([*shape]) for shape in shapes)


_RULES: Mapping[str, Callable[[Node], str | None]] = {
    "BatchNormalization": _check_batch_normalization,
    "Clip": _check_clip,
    "Conv": _check_conv,
    "ConvTranspose": _check_conv_transpose,
    "Gemm": _check_gemm,
    "Pad": _check_pad,
    "Reduce": _check_reduction,
    "Reshape": _check_reshape,
    "Resize": _check_resize,
    "Slice": _check_slice,
    "Squeeze": _check_squeeze,
}
