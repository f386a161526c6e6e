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
    get_attributes,
    get_name,
    get_operator,
    get_shape,
    list_consumers,
)
from ptq.rewrite.change import Change
from ptq.rewrite.prepare.locate_cut import get_axis_size, start_offset


def bypass_concat(graph: Graph) -> list[Change]:
    """Replace outputs of Split or Slice that hold whole inputs of a Concat by those inputs, in place.

    A Concat of these inputs alone replaces an output that holds several. Graph outputs stay unchanged.
    """
    count = 0
    for node in graph.nodes:
        if get_operator(node) in ("Split", "Slice"):
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
        or get_operator(concat) != "Concat"
        or concat.graph is not node.graph
        or old.is_graph_output()
        or not list_consumers(old)
    ):
        return False
    shape = get_shape(whole)
    if shape is None:
        return False
    axis = int(get_attributes(concat)["axis"]) % len(shape)
    sizes = [get_axis_size(value, axis) for value in concat.inputs]
    start, size = start_offset(node, place, axis, shape[axis]), get_axis_size(old, axis)
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
    filled = [value for value in segments if get_axis_size(value, axis)]
    if len(filled) == 1 and filled[0] is not None:
        return filled[0]
    dtype = None if old.dtype is None else old.dtype.numpy()
    return graph.insert(
        "Concat", filled, before=node, attrs={"axis": axis}, output=get_name(old), dtype=dtype,
        shape_like=old,
    )  # fmt: skip
