"""Mul by a positive constant → the weights of the layers behind it.

    w ∗ (c · x) = (c · w) ∗ x

A factor passes through homogeneous operators: pools, data movement, Relu and LeakyRelu. It passes through a sum with
a constant too, which is divided by it. It is folded if every path ends at constant weights. On integers a product
with a constant costs a rounding and a pass over the tensor, for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.ops import LINEAR_OPS
from ptq.model.graph import Graph
from ptq.model.node import (
    FLOAT_TYPES,
    Node,
    Value,
    get_constant,
    get_dtype,
    get_operator,
    list_consumers,
)
from ptq.rewrite.change import Change
from ptq.rewrite.edit import set_constant
from ptq.rewrite.match import get_scalar_constant
from ptq.rewrite.prepare.activation_pattern import find_activations

_HOMOGENEOUS_OPS = frozenset(
    [
        *("AveragePool", "DepthToSpace", "Flatten", "GlobalAveragePool", "GlobalMaxPool", "Identity", "LeakyRelu"),
        *("MaxPool", "ReduceMean", "Relu", "Reshape", "Slice", "SpaceToDepth", "Split", "Squeeze", "Transpose"),
        "Unsqueeze",
    ]
)  # fmt: skip
_MAX_FACTOR = 2.0**20
"""A factor beyond it, or below its inverse, could take weights out of the normal range of their float type."""


@dataclass(frozen=True, eq=False)
class _FactorPaths:
    """The constants that absorb a factor, by node and position of the input.

    Attributes:
        weights: To be multiplied by the factor.
        summands: To be divided by it.
    """

    weights: dict[tuple[Node, int], NDArray[Any]] = field(default_factory=dict)
    summands: dict[tuple[Node, int], NDArray[Any]] = field(default_factory=dict)

    def trace(self, value: Value) -> bool:
        """Collect the constants on all paths from the value; whether every path ends at weights."""
        if value.is_graph_output() or not value.uses():
            return False
        return all(self._can_absorb(node, value) for node in list_consumers(value))

    def _can_absorb(self, node: Node, value: Value) -> bool:
        op = get_operator(node)
        if [v for v in node.inputs if v is value] != [value] or node.graph is not _get_graph(value):
            return False
        if op in LINEAR_OPS:
            weight = get_constant(node.inputs[1])
            if node.inputs[0] is not value or weight is None or weight.dtype not in FLOAT_TYPES:
                return False
            self.weights[node, 1] = weight
            return True
        if op in _HOMOGENEOUS_OPS:
            return node.inputs[0] is value and all(map(self.trace, node.outputs))
        if op == "Add":
            position = 1 if node.inputs[0] is value else 0
            summand = get_constant(node.inputs[position])
            if summand is None or summand.dtype not in FLOAT_TYPES:
                return False
            self.summands[node, position] = summand
            return self.trace(node.outputs[0])
        return False


def _get_graph(value: Value) -> Any:
    node = value.producer()
    return None if node is None else node.graph


def fold_scale_forward(graph: Graph, *, float_functions: bool = False) -> list[Change]:
    """Fold positive scalar factors into the weights behind them, in place.

    With ``float_functions`` the factor of a Gelu in several operators stays: runtimes fuse the whole pattern.
    """
    count = 0
    functions = {node for node, _ in find_activations(graph)} if float_functions else set()
    for node in reversed(graph.nodes):
        found = _match_factor(node)
        if found is None or node in functions:
            continue
        x, factor = found
        paths, y = _FactorPaths(), node.outputs[0]
        if not paths.trace(y):
            continue
        for times, places in ((factor, paths.weights), (1 / factor, paths.summands)):
            _scale_constants(graph, places, times)
        graph.redirect(y, x)
        graph.remove(node)
        count += 1
    return [Change("fold_scale_forward", count)] if count else []


def _scale_constants(
    graph: Graph, places: Mapping[tuple[Node, int], NDArray[Any]], times: float
) -> None:
    for (node, position), array in places.items():
        scaled = (array.astype(np.float64) * times).astype(array.dtype)
        set_constant(graph, node, position, scaled, "scaled")


def _match_factor(node: Node) -> tuple[Value, float] | None:
    """The x and the c of c · x, with c a positive constant; None if the node is something else."""
    if get_operator(node) != "Mul" or get_dtype(node.outputs[0]) not in FLOAT_TYPES:
        return None
    for x, other in (node.inputs, reversed(node.inputs)):
        c, array = get_scalar_constant(other), get_constant(other)
        if x is None or x.producer() is None or c is None or array is None:
            continue
        if 1 / _MAX_FACTOR < c < _MAX_FACTOR and x.shape is not None and array.ndim <= len(x.shape):
            return x, c
    return None
