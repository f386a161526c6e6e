"""Axes of a Softmax, and the attributes of a Resize that have no integer kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptq.model.node import Node, get_attributes, get_operator, get_shape


def get_softmax_axes(node: Node) -> tuple[int, bool]:
    """Axis of a Softmax or QLinearSoftmax, and whether it runs over all axes from that one on.

    Before opset 13 a Softmax runs over all trailing axes. If there is only one of them, both rules agree; the
    axis is then -1.
    """
    attrs = get_attributes(node)
    imported = node.graph.opset_imports.get("") if node.graph is not None else None
    old = int(attrs.get("opset", imported or 13)) < 13
    axis = int(
        attrs.get(
            "axis", 1 if old and get_operator(node) != "com.microsoft::QLinearSoftmax" else -1
        )
    )
    if not old:
        return axis, False
    source = node.inputs[0]
    shape = get_shape(source) if source is not None else None
    last = axis == -1 or (shape is not None and axis == len(shape) - 1)
    return (-1, False) if last else (axis, True)


def resize_unsupported_reason(attrs: Mapping[str, Any]) -> str:
    """Why no integer kernel computes this Resize; empty if one does."""
    if attrs.get("keep_aspect_ratio_policy", "stretch") != "stretch" or attrs.get("antialias"):
        return "Resize with keep_aspect_ratio_policy or antialias has no integer kernel"
    mode = attrs.get("coordinate_transformation_mode", "half_pixel")
    if mode in ("tf_crop_and_resize", "half_pixel_symmetric"):
        return f"Resize in mode {mode} has no integer kernel"
    return ""
