"""Who reads of a Concat only inputs that it was given whole, and may read those themselves?

Heads for boxes and scores are joined and parted again; where a target wants one scale for all that is joined, the
finer of the branches would pay for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ptq.core.wording import plural
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


def bypass_concat(graph: Graph) -> list[str]:
    """Let what a Split or Slice takes out of a Concat be read from its inputs; in place.

    Where that is several inputs, a Concat of those alone stands for it. Graph outputs stay as they are.

    Returns:
        A sentence, if anything has changed.
    """
    count = 0
    for node in graph.nodes:
        if operator_of(node) in ("Split", "Slice"):
            count += sum(_bypass_output(graph, node, place) for place in range(len(node.outputs)))
            if not any(v.uses() or v.is_graph_output() for v in node.outputs):
                graph.remove(node)
    return [f"read {plural(count, 'part')} of a Concat from its inputs"] if count else []


def _bypass_output(graph: Graph, node: Node, place: int) -> bool:
    """Let the readers of an output read whole inputs of the Concat before the node, if they are such."""
    old, joined = node.outputs[place], node.inputs[0]
    concat = None if joined is None else joined.producer()
    if (
        joined is None
        or concat is None
        or operator_of(concat) != "Concat"
        or concat.graph is not node.graph
        or old.is_graph_output()
        or not consumers_of(old)
    ):
        return False
    shape = shape_of(joined)
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
    parts = concat.inputs[edges.index(start) : edges.index(start + size)]
    if len(parts) == len(concat.inputs):
        return False
    graph.redirect(old, _concat_inputs(graph, node, parts, axis, old))
    return True


def _concat_inputs(
    graph: Graph, node: Node, parts: Sequence[Value | None], axis: int, old: Value
) -> Value:
    """The one part, or the parts joined."""
    whole = [value for value in parts if _axis_size(value, axis)]
    if len(whole) == 1 and whole[0] is not None:
        return whole[0]
    dtype = None if old.dtype is None else old.dtype.numpy()
    return graph.insert(
        "Concat", whole, before=node, attrs={"axis": axis}, output=name_of(old), dtype=dtype,
        shape_like=old,
    )  # fmt: skip


def _axis_size(value: Value | None, axis: int) -> int | None:
    shape = None if value is None else shape_of(value)
    return None if shape is None else shape[axis]


def _start_offset(node: Node, place: int, axis: int, length: int | None) -> int | None:
    """Where an output begins along the axis, if it is cut along that axis alone, element by element."""
    if operator_of(node) == "Split":
        if (int(attributes_of(node).get("axis", 0)) - axis) % len(shape_of(node.outputs[0]) or [1]):
            return None
        before = [_axis_size(value, axis) for value in node.outputs[:place]]
        return None if None in before else sum(n or 0 for n in before)
    given = [constant_of(value) for value in node.inputs[1:]]
    if len(given) < 3 or length is None or any(array is None for array in given):
        return None
    starts, _, axes, *steps = ([int(n) for n in array] for array in given if array is not None)
    rank = len(shape_of(node.outputs[0]) or [1])
    if [a % rank for a in axes] != [axis] or steps not in ([], [[1]]):
        return None
    start = starts[0]
    return min(max(start + length if start < 0 else start, 0), length)
