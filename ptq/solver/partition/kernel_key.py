"""The key of a kernel in a table of times: operator, attributes and shapes."""

from __future__ import annotations

from collections.abc import Iterable

from ptq.model.node import Node, Value, get_attributes, get_operator, get_shape, is_constant
from ptq.model.weights.matrix_layout import is_single_channel

_RELEVANT = ("dilations", "group", "kernel_shape", "pads", "strides", "transA", "transB")
"""Attributes that decide how long a kernel takes."""


def build_kernel_key(node: Node) -> str | None:
    """The key, e.g. ``Conv 1×32×14×14 64×32×1×1 → 1×64×14×14``; None where a shape is unknown.

    A first dimension that varies counts as 1.
    """
    shapes = [_describe_shape(value) for value in (*node.inputs, *node.outputs) if value]
    if None in shapes or not shapes:
        return None
    inputs = " ".join(_describe_inputs(node.inputs))
    outputs = " ".join(str(_describe_shape(value)) for value in node.outputs)
    given = get_attributes(node)
    attributes = [f"{name}={_describe(given[name])}" for name in _RELEVANT if given.get(name)]
    return f"{' '.join([get_operator(node), *attributes])} {inputs} → {outputs}"


def get_kernel_kind(node: Node) -> str:
    """The kind of a kernel, whose times one machine scales alike: the operator, and for Conv its form."""
    op = get_operator(node)
    weight = node.inputs[1] if op == "Conv" and len(node.inputs) > 1 else None
    shape = None if weight is None else get_shape(weight)
    if not shape or len(shape) < 3:
        return op
    groups = get_attributes(node).get("group", 1)
    if groups > 1:
        return f"{op}, {'depthwise' if is_single_channel(shape, groups) else 'grouped'}"
    return f"{op}, pointwise" if all(side == 1 for side in shape[2:]) else op


def _describe_inputs(values: Iterable[Value | None]) -> Iterable[str]:
    for value in values:
        if value is not None:
            constant = "" if not is_constant(value) else "c"
            yield f"{constant}{_describe_shape(value)}"


def _describe_shape(value: Value) -> str | None:
    shape = get_shape(value)
    if shape is None or None in shape[1:]:
        return None
    return "×".join(str(1 if side is None else side) for side in shape) or "1"


def _describe(attribute: object) -> str:
    if isinstance(attribute, list | tuple):
        return ",".join(map(str, attribute))
    return str(attribute)
