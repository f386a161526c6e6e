"""Values whose last bit decides a result, such as whole quotients before Floor.

In float32, 41 · 4 · (1 / 41) is just below 4, so that Floor finds 3. Only numbers on a grid meet the edge of a step.
What a layer or a smooth function computes falls on either side anyway.
"""

from __future__ import annotations

from collections.abc import Container

from ptq.core.ops import ELEMENTWISE
from ptq.model.graph import Graph
from ptq.model.node import FLOAT_TYPES, Node, Value, get_dtype, get_operator, get_spec

WHOLE_FUNCTIONS = frozenset(
    [
        "Abs", "Cast", "Ceil", "CumSum", "Floor", "LeakyRelu", "Neg", "PRelu", "ReduceL1", "ReduceMax", "ReduceMin",
        "ReduceProd", "ReduceSum", "ReduceSumSquare", "Relu", "Round",
    ]
)  # fmt: skip
"""Functions of their first input that return whole numbers for whole numbers, if slopes are whole too."""
_ROUNDING = frozenset(["Ceil", "Floor", "Round"])
_STEPS = _ROUNDING | {
    "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Mod", "QuantizeLinear", "Sign"
}  # fmt: skip
"""Operators whose result may jump where a value changes in its last bit; so does a Cast to integers."""
_KEEPS_GRID = ELEMENTWISE | WHOLE_FUNCTIONS | {
    "Clip", "Concat", "GatherElements", "GatherND", "Pow", "ScatterElements", "ScatterND", "TopK", "Where"
}  # fmt: skip
"""Operators that return whole numbers for whole numbers, like data movement."""


def find_deciding_values(graph: Graph) -> set[Value]:
    """Computed values on a grid that reach a step, also inside sub-graphs.

    Graph inputs, integers and rounded values are on a grid, and what simple arithmetic makes of them and constants.
    """
    nodes = list(graph.model.graph.all_nodes())
    on_grid, stepped = set[Value](), set[Value | None]()
    for node in nodes:
        if get_operator(node) in _ROUNDING or (
            _can_keep_grid(node) and _is_fed_by_grid(node, on_grid)
        ):
            on_grid.update(node.outputs)
    for node in reversed(nodes):
        if _is_step(node) or (_can_keep_grid(node) and not stepped.isdisjoint(node.outputs)):
            stepped.update(node.inputs)
    return on_grid & stepped


def _is_step(node: Node) -> bool:
    to_integers = get_operator(node) == "Cast" and get_dtype(node.outputs[0]) not in FLOAT_TYPES
    return to_integers or get_operator(node) in _STEPS


def _can_keep_grid(node: Node) -> bool:
    spec = get_spec(node)
    return get_operator(node) in _KEEPS_GRID or (spec is not None and spec.moves_integers)


def _is_fed_by_grid(node: Node, on_grid: Container[Value]) -> bool:
    """Whether all inputs of a node are on the grid; constants and graph inputs, which no node makes, are."""
    return all(
        value is None
        or value in on_grid
        or value.producer() is None
        or get_dtype(value) not in (None, *FLOAT_TYPES)
        for value in node.inputs
    )
