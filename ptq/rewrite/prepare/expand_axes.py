"""Resize and Pad that name their axes → the same with a value for each axis.

    scales   1 for the other axes
    sizes    the other lengths; where one is open, scales = size / length in float32, as ONNX Runtime computes them
    roi      from 0 to 1 along the other axes; none where the mode is not tf_crop_and_resize, which alone reads it
    pads     0 for the other axes

ONNX Runtime 1.32 moves a Transpose across such a node and reads the named axes as all of them: the model then fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ptq.model.graph import Graph
from ptq.model.node import Node, get_attributes, get_constant, get_name, get_operator, get_shape
from ptq.rewrite.change import Change
from ptq.rewrite.edit import set_attributes, set_constant

_ROI, _SCALES, _SIZES = 1, 2, 3
_PADS, _PAD_AXES = 1, 3


def expand_axes(graph: Graph) -> list[Change]:
    """Give Resize and Pad a value for each axis, in place; operands that are computed leave them as they are."""
    count = 0
    for node in graph.nodes:
        op, x = get_operator(node), node.inputs[0] if node.inputs else None
        shape = None if x is None or op not in ("Resize", "Pad") else get_shape(x)
        if shape is not None:
            expand = _expand_resize if op == "Resize" else _expand_pad
            count += expand(graph, node, shape)
    return [Change("expand_axes", count)] if count else []


def _expand_pad(graph: Graph, node: Node, shape: Sequence[int | None]) -> bool:
    axes, pads = _read(node, _PAD_AXES), _read(node, _PADS)
    if axes is None or pads is None:
        return False
    named = [int(a) % len(shape) for a in axes]
    halves = [_spread([0] * len(shape), named, half) for half in np.split(pads, 2)]
    _set(graph, node, _PADS, np.concatenate(halves), "pads")
    node.replace_input_with(_PAD_AXES, None)
    return True


def _expand_resize(graph: Graph, node: Node, shape: Sequence[int | None]) -> bool:
    attrs = get_attributes(node)
    crops = attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    given = [value for value in node.inputs[_ROI if crops else _SCALES :] if value is not None]
    policy = attrs.get("keep_aspect_ratio_policy", "stretch")
    if "axes" not in attrs or policy != "stretch" or any(get_constant(v) is None for v in given):
        return False
    rank = len(shape)
    named = [int(a) % rank for a in attrs["axes"]]
    roi, scales, sizes = (_read(node, position) for position in (_ROI, _SCALES, _SIZES))
    if crops and roi is not None and roi.size != 2 * len(named):
        return False
    if sizes is not None and sizes.size and None not in shape:
        _set(graph, node, _SIZES, _spread([n or 0 for n in shape], named, sizes), "sizes")
    else:
        if scales is None or not scales.size:
            scales = None if sizes is None else _find_scales(sizes, [shape[a] for a in named])
        if scales is None:
            return False
        if len(node.inputs) > _SIZES:
            node.replace_input_with(_SIZES, None)
        full = _spread([1] * rank, named, scales)
        _set(graph, node, _SCALES, full.astype(np.float32), "scales")
    if not crops:
        node.replace_input_with(_ROI, None)
    elif roi is not None:
        starts, ends = np.split(roi, 2)
        region = [_spread([0] * rank, named, starts), _spread([1] * rank, named, ends)]
        _set(graph, node, _ROI, np.concatenate(region).astype(roi.dtype), "roi")
    set_attributes(node, axes=None)
    return True


def _find_scales(sizes: NDArray[Any], lengths: Sequence[int | None]) -> NDArray[Any] | None:
    """Scales that give the sizes, in float32; None if there are none of exactly these sizes."""
    if not all(lengths):
        return None
    divisors = np.asarray(lengths, np.float32)
    scales: NDArray[Any] = sizes.astype(np.float32) / divisors
    return scales if np.array_equal(np.floor(scales * divisors), sizes) else None


def _spread(filling: ArrayLike, axes: Sequence[int], values: ArrayLike) -> NDArray[Any]:
    """An array with one value for each axis: ``filling``, and the values along the named axes."""
    values = np.asarray(values)
    full = np.asarray(filling).astype(values.dtype)
    full[list(axes)] = values
    return full


def _read(node: Node, position: int) -> NDArray[Any] | None:
    """A constant operand as a vector; None if it is absent or computed."""
    array = get_constant(node.inputs[position]) if position < len(node.inputs) else None
    return None if array is None else array.reshape(-1)


def _set(graph: Graph, node: Node, position: int, array: NDArray[Any], what: str) -> None:
    set_constant(graph, node, position, array, f"{get_name(node.outputs[0])}_{what}")
