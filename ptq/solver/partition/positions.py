"""Positions that follow from the sizes of tensors, such as a detector's grid of anchors.

They are counted by Range from what Shape returns, so that they grow with the input. A range that was calibrated with
small images would cut them off in larger ones: boxes right of it would all land in one place.
"""

from __future__ import annotations

from collections.abc import Collection

from ptq.core.ops import ELEMENTWISE, OPS
from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    dtype_of,
    is_constant,
    is_float32,
    operator_of,
    spec_name,
)

_REASON = "it computes with positions, which in larger inputs exceed any calibrated range"


def nodes_with_positions(graph: Graph) -> dict[str, str]:
    """The nodes that compute, move or add positions, with the reason to keep them float."""
    of_sizes: set[Value] = set()
    positions: set[Value] = set()
    found = {}
    for node in graph.nodes:
        inputs = [value for value in node.inputs if value is not None and not is_constant(value)]
        if operator_of(node) in ("Shape", "Size") or (inputs and of_sizes.issuperset(inputs)):
            of_sizes.update(node.outputs)
        if positions.intersection(inputs) and _keeps_positions(node, positions):
            found[node.name or ""] = _REASON
            positions.update(node.outputs)
        elif of_sizes.issuperset(node.outputs) and _counts(node):
            positions.update(node.outputs)
    return found


def _counts(node: Node) -> bool:
    """Whether the node, which reads sizes, starts float positions: a Range, or integers that become float."""
    if operator_of(node) == "Cast":
        source = node.inputs[0]
        before = None if source is None else dtype_of(source)
        return before is not None and before.kind in "iu" and is_float32(node.outputs[0])
    return operator_of(node) == "Range" and is_float32(node.outputs[0])


def _keeps_positions(node: Node, positions: Collection[Value]) -> bool:
    """Whether the output of a node that reads positions grows with them: a sum, a product, data movement.

    Positions by a size are shares of it, and do not grow.
    """
    spec = OPS.get(spec_name(node))
    if operator_of(node) == "Div":
        return node.inputs[1] not in positions
    moves = spec is not None and (spec.moves_integers or spec.op == "Concat")
    return moves or operator_of(node) in ELEMENTWISE
