"""Concat → Split, Slice of whole inputs → those inputs.

Detection heads concatenate boxes and scores and split them again. With one scale for all
inputs of a Concat, which some targets need, the scale of the input with the smallest range is too coarse.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    attributes_of,
    constant_of,
    consumers_of,
    name_of,
    operator_of,
    shape_of,
)
from ptq.rewrite.change import Change


def bypass_concat(graph: Graph) -> list[Change]:
    """Replace outputs of Split or Slice that hold whole inputs of a Concat by those inputs, in place.

    A Concat of these inputs alone replaces an output that holds several. Graph outputs stay unchanged.
    """
    count = 0
    for node in graph.nodes:
        if operator_of(node) in ("Split", "Slice"):
            count += sum(_bypass_output(graph, node, place) for place in range(len(node.outputs)))
            if not any(v.uses() or v.is_graph_output() for v in node.outputs):
                graph.remove(node)
    return [Change("bypass_concat", count)] if count else []


def _bypass_output(graph: Graph, node: Node, place: int) -> bool:
    """Let the readers of an output read the inputs of the Concat before the node; whether it holds whole inputs."""
    old, whole = node.outputs[place], node.inputs[0]
    concat = None if whole is None else whole.producer()
    if (
        whole is None
        or concat is None
        or operator_of(concat) != "Concat"
        or concat.graph is not node.graph
        or old.is_graph_output()
        or not consumers_of(old)
    ):
        return False
    shape = shape_of(whole)
    if shape is None:
        return False
    axis = int(attributes_of(concat)["axis"]) % len(shape)
    sizes = [_axis_size(value, axis) for value in concat.inputs]
    start, size = _start_offset(node, place, axis, shape[axis]), _axis_size(old, axis)
    if start is None or size is None or None in sizes:
        return False
    edges = list(itertools.accumulate((n or 0 for n in sizes), initial=0))
    if start not in edges or start + size not in edges or not size:
        return False
    segments = concat.inputs[edges.index(start) : edges.index(start + size)]
    if len(segments) == len(concat.inputs):
        return False
    graph.redirect(old, _concat_segments(graph, node, segments, axis, old))
    return True


def _concat_segments(
    graph: Graph, node: Node, segments: Sequence[Value | None], axis: int, old: Value
) -> Value:
    """The only segment that is not empty, or a Concat of all that are not."""
    filled = [value for value in segments if _axis_size(value, axis)]
    if len(filled) == 1 and filled[0] is not None:
        return filled[0]
    dtype = None if old.dtype is None else old.dtype.numpy()
    return graph.insert(
        "Concat", filled, before=node, attrs={"axis": axis}, output=name_of(old), dtype=dtype,
        shape_like=old,
    )  # fmt: skip


def _axis_size(value: Value | None, axis: int) -> int | None:
    shape = None if value is None else shape_of(value)
    return None if shape is None else shape[axis]


def _start_offset(node: Node, place: int, axis: int, length: int | None) -> int | None:
    """The position along the axis at which an output begins; None unless it is cut along this axis with step 1."""
    if operator_of(node) == "Split":
        if (int(attributes_of(node).get("axis", 0)) - axis) % len(shape_of(node.outputs[0]) or [1]):
            return None
        before = [_axis_size(value, axis) for value in node.outputs[:place]]
        return None if None in before else sum(n or 0 for n in before)
    operands = [constant_of(value) for value in node.inputs[1:]]
    if len(operands) < 3 or length is None or any(array is None for array in operands):
        return None
    starts, _, axes, *steps = ([int(n) for n in array] for array in operands if array is not None)
    rank = len(shape_of(node.outputs[0]) or [1])
    if [a % rank for a in axes] != [axis] or steps not in ([], [[1]]):
        return None
    start = starts[0]
    return min(max(start + length if start < 0 else start, 0), length)
