"""Layer → Reshape, Squeeze or Transpose → activation: the activation directly behind the layer.

An activation directly behind a layer costs nothing on integers: the layer clamps its result. Pairs of Reshape,
Squeeze and Unsqueeze that then stand together and restore a shape are removed.
"""

from __future__ import annotations

from ptq.core.ops import LINEAR_OPS, OPS
from ptq.model.graph import Graph
from ptq.model.node import (
    RESHAPE_OPS,
    Node,
    Value,
    get_attributes,
    get_dtype,
    get_name,
    get_operator,
    is_constant,
)
from ptq.rewrite.change import Change
from ptq.rewrite.edit import keep_node_name, replace_node
from ptq.rewrite.match import find_sole_reader
from ptq.rewrite.prepare.node_shapes import refine_node_shapes
from ptq.rewrite.prepare.shape_inference import get_symbolic_shape

_VIEWS = frozenset({*RESHAPE_OPS, "Transpose"})
_ACTIVATIONS = frozenset(row.op for row in OPS.values() if row.is_activation)


def move_views(graph: Graph) -> list[Change]:
    """Move views of layers behind their activations and remove views that cancel, in place; values stay exact."""
    moved = sum(_move_behind(graph, node) for node in graph.nodes)
    cancelled = sum(_cancel(graph, node) for node in graph.nodes)
    graph.remove_unused()
    counts = (("move_views", moved), ("cancel_views", cancelled))
    return [Change(kind, count) for kind, count in counts if count]


def _move_behind(graph: Graph, node: Node) -> bool:
    """Put an activation between a layer and the views behind it; whether the node is one behind such views."""
    x = node.inputs[0] if node.inputs else None
    if (
        get_operator(node) not in _ACTIVATIONS
        or x is None
        or not all(map(_is_bound, node.inputs[1:]))
    ):
        return False
    last, view = x, None
    while (maker := _find_only_producer(x)) is not None and get_operator(maker) in _VIEWS:
        view, source = maker, maker.inputs[0]
        assert source is not None
        x = source
    if maker is None or view is None or get_operator(maker) not in LINEAR_OPS:
        return False
    result = graph.insert(
        get_operator(node),
        [x, *node.inputs[1:]],
        attrs=get_attributes(node),
        after=maker,
        output=f"{get_name(x)}_activated",
        dtype=get_dtype(x),
        shape_like=x,
    )
    view.replace_input_with(0, result)
    replace_node(graph, node, last)
    keep_node_name(node, result)
    return True


def _is_bound(value: Value | None) -> bool:
    return value is None or is_constant(value)


def _find_only_producer(value: Value) -> Node | None:
    """The node that computes a value which one node alone reads, in the same graph."""
    return value.producer() if find_sole_reader(value) is not None else None


def _cancel(graph: Graph, last: Node) -> bool:
    """Let the readers of two views in a row read the value before them, if its shape is theirs."""
    first = (
        last.inputs[0].producer() if get_operator(last) in RESHAPE_OPS and last.inputs[0] else None
    )
    if first is None or get_operator(first) not in RESHAPE_OPS or first.graph is not last.graph:
        return False
    x, y = first.inputs[0], last.outputs[0]
    if x is None or not _is_shape_equal(x, y, graph.opset):
        return False
    if y.is_graph_output() and (x.producer() is None or x.is_graph_output()):
        return False
    graph.substitute(y, x)
    graph.remove(last)
    return True


def _is_shape_equal(x: Value, y: Value, opset: int) -> bool:
    """Whether two tensors of equally many elements have the same shape for certain."""
    for value in (x, y):
        maker = value.producer()
        if value.shape is None and maker is not None:
            refine_node_shapes(maker, opset)
    before, after = get_symbolic_shape(x), get_symbolic_shape(y)
    if before is None or after is None or len(before) != len(after):
        return False
    same = [a for a, b in zip(before, after, strict=True) if a == b]
    # the number of elements gives one size if the others are known
    sizes_known = all(isinstance(size, int) and size > 0 for size in same)
    return len(same) == len(before) or (len(same) == len(before) - 1 and sizes_known)
