"""Shape nodes behind a Concat that do not depend on its axis, as exports compute grids of anchors."""

from __future__ import annotations

from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    get_attributes,
    get_constant,
    get_operator,
    get_shape,
    list_consumers,
)


def list_shape_readers(value: Value, axis: int) -> list[Node]:
    """The Shape nodes that read a value and of which only sizes of other axes are gathered."""
    rank = len(get_shape(value) or ())
    return [
        node
        for node in list_consumers(value)
        if get_operator(node) == "Shape"
        and not {"start", "end"} & set(node.attributes)
        and not node.outputs[0].is_graph_output()
        and all(
            _is_gather_of_others(reader, rank, axis) for reader in list_consumers(node.outputs[0])
        )
    ]


def read_shape_of_first_input(graph: Graph, concat: Node, axis: int) -> None:
    """Let these Shape nodes read the first input of a Concat along the axis instead of its output."""
    first, moved = concat.inputs[0], list_shape_readers(concat.outputs[0], axis)
    if first is not None:
        kept = [node for node in list_consumers(concat.outputs[0]) if node not in moved]
        graph.redirect(concat.outputs[0], first, keep=kept)


def _is_gather_of_others(node: Node, rank: int, axis: int) -> bool:
    indices = get_constant(node.inputs[1]) if get_operator(node) == "Gather" else None
    if indices is None or not rank or get_attributes(node).get("axis", 0):
        return False
    return axis not in {int(index) % rank for index in indices.flat}
