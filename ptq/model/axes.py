"""Along which axes has an operand a scale each, and does a Softmax run?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptq.model.node import Node, attributes_of, operator_of, shape_of


def softmax_axes(node: Node) -> tuple[int, bool]:
    """The axis that a Softmax or QLinearSoftmax runs along, and whether along all from it on together.

    That was the rule before opset 13; where they are the last one alone the axis is -1 and both rules are the same.
    """
    attrs = attributes_of(node)
    imported = node.graph.opset_imports.get("") if node.graph is not None else None
    old = int(attrs.get("opset", imported or 13)) < 13
    axis = int(
        attrs.get("axis", 1 if old and operator_of(node) != "com.microsoft::QLinearSoftmax" else -1)
    )
    if not old:
        return axis, False
    source = node.inputs[0]
    shape = shape_of(source) if source is not None else None
    last = axis == -1 or (shape is not None and axis == len(shape) - 1)
    return (-1, False) if last else (axis, True)


def resize_unsupported_reason(attrs: Mapping[str, Any]) -> str:
    """What of ONNX's Resize is not computed here; nothing where all is."""
    if attrs.get("keep_aspect_ratio_policy", "stretch") != "stretch" or attrs.get("antialias"):
        return "Resize that keeps the aspect ratio or smooths has no integer kernel"
    mode = attrs.get("coordinate_transformation_mode", "half_pixel")
    if mode in ("tf_crop_and_resize", "half_pixel_symmetric"):
        return f"Resize in mode {mode} has no integer kernel"
    return ""
