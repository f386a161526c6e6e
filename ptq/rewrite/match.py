"""What do passes ask of a value when they look for a pattern of operators?"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from ptq.core.errors import ModelError
from ptq.model.graph import Graph
from ptq.model.node import Value, attributes_of, constant_of, operator_of, shape_of

Match = TypeVar("Match")

_RELATIVE_TOLERANCE = 1e-3
"""Exporters write constants such as √2 with few digits, or in float16."""


def scalar_constant(value: Value | None) -> float | None:
    """A constant of one element; None for everything else."""
    array = constant_of(value)
    return float(array.item()) if array is not None and array.size == 1 else None


def is_close(value: float | None, wanted: float) -> bool:
    """Whether it is the wanted constant, in as many digits as exporters write."""
    return value is not None and math.isclose(value, wanted, rel_tol=_RELATIVE_TOLERANCE)


def producer_op(value: Value) -> tuple[str, Mapping[str, Any]]:
    """The operator that makes a value, empty where none does, and its attributes."""
    node = value.producer()
    return ("", {}) if node is None else (operator_of(node), attributes_of(node))


def producer_inputs(value: Value) -> list[Value]:
    """What the node that makes a value reads."""
    node = value.producer()
    return [] if node is None else [v for v in node.inputs if v is not None]


def match_add_constant(value: Value, wanted: float) -> Value | None:
    """The x of x + constant; None where the value is something else."""
    if producer_op(value)[0] != "Add":
        return None
    a, b = producer_inputs(value)
    return (
        a
        if is_close(scalar_constant(b), wanted)
        else b
        if is_close(scalar_constant(a), wanted)
        else None
    )


def match_reduction(value: Value, op: str) -> tuple[Value, int] | None:
    """What the value is a reduction of over one axis, which stays or is put back with length 1, and that axis."""
    made, (kind, attrs) = value, producer_op(value)
    if kind in ("Reshape", "Unsqueeze"):
        made = producer_inputs(value)[0]
        kind, attrs = producer_op(made)
    if kind != op or (made is value) != bool(attrs.get("keepdims", 1)):
        return None
    x, *rest = producer_inputs(made)
    whole, axes = shape_of(x), constant_of(rest[0]) if rest else attrs.get("axes")
    if not whole or axes is None or np.size(axes) != 1:
        return None
    axis = int(np.ravel(axes)[0]) % len(whole)
    kept = made is value or shape_of(value) == (*whole[:axis], 1, *whole[axis + 1 :])
    return (x, axis) if kept else None


def try_upgrade_opset(graph: Graph, version: int) -> tuple[Graph, list[str]]:
    """The graph in that version of ONNX's operators at least, and a sentence; as it is where that fails."""
    if version <= graph.opset:
        return graph, []
    try:
        newer = graph.with_opset(version).with_shapes()
    except ModelError:
        return graph, []
    return newer, [f"raised the opset from {graph.opset} to {version} for its functions"]


def find_occurrences(
    graph: Graph, version: int, find: Callable[[Graph], list[Match]]
) -> tuple[Graph, list[Match], list[str]]:
    """Where a pattern occurs whose name that version of ONNX's operators has, in a graph of it, and a sentence.

    Where the opset cannot be raised there are none.
    """
    graph, changes = try_upgrade_opset(graph, version if find(graph) else 0)
    return graph, find(graph) if graph.opset >= version else [], changes
