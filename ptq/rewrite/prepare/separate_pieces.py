"""Concat → Reshape, Concat along another axis → Split: the pieces go through Reshape and Concat apart.

Heads in the manner of YOLOv8 join boxes and classes of a level, join the levels, and split boxes from classes again.
In between both have one scale. Apart, each has its own. The rewrite only moves data, so the floats are the same bits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np
import onnx_ir as ir

from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    get_attributes,
    get_constant,
    get_name,
    get_operator,
    get_shape,
    list_consumers,
)
from ptq.rewrite.change import Change
from ptq.rewrite.prepare.locate_cut import cut_axis, get_axis_size, start_offset
from ptq.rewrite.prepare.shape_readers import list_shape_readers, read_shape_of_first_input

Span = tuple[int, int]
"""Start and end of a piece along the axis of the cut."""


def separate_pieces(graph: Graph) -> list[Change]:
    """Compute the outputs of Split and Slice without joining them first, in place.

    It applies where each output holds whole inputs of every Concat along the axis of the cut, and no other node reads
    the joined tensors, except for the sizes of other axes. `bypass_concat` serves a Concat directly before the cut.
    """
    count = sum(_separate(graph, node) for node in graph.nodes)
    if not count:
        return []
    graph.remove_unused()  # else the inputs of the old Concats would have a second reader
    return [Change("separate_pieces", count)]


def _separate(graph: Graph, node: Node) -> int:
    """Separate the pieces that the readers of a Concat or Reshape cut; returns their number."""
    joined = node.outputs[0]
    if get_operator(node) not in ("Concat", "Reshape") or joined.is_graph_output():
        return 0
    readers = list_consumers(joined)
    if any(reader.graph is not node.graph or reader.inputs[0] is not joined for reader in readers):
        return 0
    axes = {cut_axis(reader) for reader in readers}
    if len(axes) != 1:
        return 0
    axis = axes.pop()
    if axis is None or _is_concat_along(node, axis):
        return 0
    spans = _find_spans(joined, readers, axis)
    if not spans or not _are_pieces(joined, axis, spans.values()):
        return 0
    for old, span in spans.items():
        graph.substitute(old, _build_piece(graph, joined, axis, span, node), rename_old="cut")
    for reader in readers:
        graph.remove(reader)
    return len(spans)


def _find_spans(joined: Value, readers: Sequence[Node], axis: int) -> dict[Value, Span]:
    """By used output of the readers: its span, a proper part; empty if one is unknown."""
    spans, length = dict[Value, Span](), get_axis_size(joined, axis)
    for reader in readers:
        for place, value in enumerate(reader.outputs):
            start, size = start_offset(reader, place, axis, length), get_axis_size(value, axis)
            if start is None or not size or size == length:
                return {}
            if value.uses() or value.is_graph_output():
                spans[value] = (start, start + size)
    return spans


def _are_pieces(joined: Value, axis: int, spans: Iterable[Span]) -> bool:
    """Whether Concats along the axis made all spans of whole inputs, and Reshapes and other Concats keep the axis."""
    node = joined.producer()
    if node is None or get_operator(node) not in ("Concat", "Reshape"):
        return False
    if _is_concat_along(node, axis):
        return all(_list_segments(node, axis, span) for span in spans)
    if get_operator(node) == "Reshape" and not _is_axis_kept(node, axis):
        return False
    inputs = node.inputs[:1] if get_operator(node) == "Reshape" else node.inputs
    return all(
        value is not None
        and not value.is_graph_output()
        and _has_one_reader(value, axis)
        and _are_pieces(value, axis, spans)
        for value in inputs
    )


def _has_one_reader(value: Value, axis: int) -> bool:
    """Whether one input of one node reads a value, apart from Shape nodes that can read a piece of it."""
    maker = value.producer()
    joins = maker is not None and _is_concat_along(maker, axis)
    return len(value.uses()) - (len(list_shape_readers(value, axis)) if joins else 0) == 1


def _is_concat_along(node: Node, axis: int) -> bool:
    rank = len(get_shape(node.outputs[0]) or [1])
    return get_operator(node) == "Concat" and int(get_attributes(node)["axis"]) % rank == axis


def _list_segments(concat: Node, axis: int, span: Span) -> list[Value]:
    """The inputs of a Concat that make up a span; empty if it cuts one, or sizes are unknown or 0."""
    inputs = [value for value in concat.inputs if value is not None]
    sizes = [get_axis_size(value, axis) or 0 for value in inputs]
    edges = list(itertools.accumulate(sizes, initial=0))
    if not all(sizes) or not set(span) <= set(edges):
        return []
    return inputs[edges.index(span[0]) : edges.index(span[1])]


def _is_axis_kept(reshape: Node, axis: int) -> bool:
    """Whether a Reshape leaves the axis and each one before it as they are."""
    source, target = reshape.inputs[0], get_constant(reshape.inputs[1])
    old = None if source is None else get_shape(source)
    new = get_shape(reshape.outputs[0])
    if old is None or new is None or target is None or not axis < min(len(old), len(new)):
        return False
    if get_attributes(reshape).get("allowzero") and 0 in target:
        return False
    behind = [math.prod(n or 0 for n in shape[axis + 1 :]) for shape in (old, new)]
    same_behind = behind[0] == behind[1] > 0  # then a size of -1 before the axis is the old size
    return old[axis] == new[axis] is not None and all(
        wanted == 0 or (a == b is not None) or (wanted == -1 and same_behind and axis == 1)
        for wanted, a, b in zip(target[:axis], old[:axis], new[:axis], strict=True)
    )


def _build_piece(graph: Graph, joined: Value, axis: int, span: Span, before: Node) -> Value:
    """The piece of a joined tensor, computed by new nodes."""
    node = joined.producer()
    assert node is not None
    if _is_concat_along(node, axis):
        read_shape_of_first_input(graph, node, axis)
        operands: list[Value | None] = [*_list_segments(node, axis, span)]
        if len(operands) == 1 and operands[0] is not None:
            return operands[0]
    elif get_operator(node) == "Concat":
        operands = [
            _build_piece(graph, value, axis, span, before)
            for value in node.inputs
            if value is not None
        ]
    else:
        source, target = node.inputs[0], get_constant(node.inputs[1])
        assert source is not None and target is not None
        sizes = np.array([*target[:axis], span[1] - span[0], *target[axis + 1 :]], np.int64)
        operands = [
            _build_piece(graph, source, axis, span, before),
            graph.add_constant(sizes, f"{get_name(joined)}_piece_shape"),
        ]
    piece = graph.insert(
        get_operator(node), operands, before=before, attrs=get_attributes(node),
        output=f"{get_name(joined)}_piece", dtype=None if joined.dtype is None else joined.dtype.numpy(),
    )  # fmt: skip
    dimensions = list(joined.shape or ())
    dimensions[axis] = span[1] - span[0]
    piece.shape = ir.Shape(dimensions)
    return piece
