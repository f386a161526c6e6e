"""Where Split and Slice cut a tensor along an axis."""

from __future__ import annotations

from ptq.model.node import Node, Value, get_attributes, get_constant, get_operator, get_shape


def get_axis_size(value: Value | None, axis: int) -> int | None:
    """The static size of a tensor along an axis."""
    shape = None if value is None else get_shape(value)
    return None if shape is None else shape[axis]


def cut_axis(node: Node) -> int | None:
    """The only axis, counted from 0, along which a Split or Slice cuts; None for others."""
    rank = len(get_shape(node.outputs[0]) or [1])
    if get_operator(node) == "Split":
        return int(get_attributes(node).get("axis", 0)) % rank
    axes = get_constant(node.inputs[3]) if len(node.inputs) > 3 else None
    if get_operator(node) != "Slice" or axes is None or axes.size != 1:
        return None
    return int(axes.item()) % rank


def start_offset(node: Node, place: int, axis: int, length: int | None) -> int | None:
    """The position along the axis at which an output begins; None unless it is cut along this axis with step 1."""
    if cut_axis(node) != axis:
        return None
    if get_operator(node) == "Split":
        before = [get_axis_size(value, axis) for value in node.outputs[:place]]
        return None if None in before else sum(n or 0 for n in before)
    operands = [get_constant(value) for value in node.inputs[1:]]
    if length is None or any(array is None for array in operands):
        return None
    starts, _, _, *steps = ([int(n) for n in array] for array in operands if array is not None)
    if steps not in ([], [[1]]):
        return None
    start = starts[0]
    return min(max(start + length if start < 0 else start, 0), length)
