"""Predicates on values for rewrites that search for a pattern of operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ptq.model.node import (
    Node,
    Value,
    get_attributes,
    get_constant,
    get_name,
    get_operator,
    get_shape,
    is_constant,
    list_consumers,
)

_RELATIVE_TOLERANCE = 1e-3
"""Exporters write constants such as √2 with few digits, or in float16."""


def get_scalar_constant(value: Value | None) -> float | None:
    """A constant of one element; None for all other values."""
    array = get_constant(value)
    return float(array.item()) if array is not None and array.size == 1 else None


def is_close(value: float | None, expected: float) -> bool:
    """Whether a constant has the expected value, within the digits that exporters write."""
    return value is not None and math.isclose(value, expected, rel_tol=_RELATIVE_TOLERANCE)


def get_producer_op(value: Value) -> tuple[str, Mapping[str, Any]]:
    """The operator that computes a value and its attributes; an empty name if there is none."""
    node = value.producer()
    return ("", {}) if node is None else (get_operator(node), get_attributes(node))


def list_producer_inputs(value: Value) -> list[Value]:
    """The inputs of the node that computes a value, without absent ones."""
    node = value.producer()
    return [] if node is None else [v for v in node.inputs if v is not None]


def find_sole_reader(value: Value, ignore: Callable[[Node], bool] | None = None) -> Node | None:
    """The only reader of a node's output that is no graph output, if all its readers are in the graph of that node.

    Args:
        value: The output.
        ignore: Readers that do not count.
    """
    maker, readers = value.producer(), list_consumers(value)
    if value.is_graph_output() or maker is None or any(r.graph is not maker.graph for r in readers):
        return None
    counted = [r for r in readers if ignore is None or not ignore(r)]
    return counted[0] if len(counted) == 1 else None


def split_constant(value: Value, op: str) -> tuple[Value, Value] | None:
    """The x and the constant c of x + c, x · c or x / c; None if the value is something else.

    Args:
        value: The value.
        op: ``Add`` or ``Mul``, with the operands in any order, or ``Div``.
    """
    if get_producer_op(value)[0] != op:
        return None
    x, constant = list_producer_inputs(value)
    if op != "Div" and is_constant(x):
        x, constant = constant, x
    return (x, constant) if is_constant(constant) and not is_constant(x) else None


def match_add_constant(value: Value, summand: float) -> Value | None:
    """The x of x + summand; None if the value is something else."""
    found = split_constant(value, "Add")
    return (
        found[0] if found is not None and is_close(get_scalar_constant(found[1]), summand) else None
    )


def match_reduction(value: Value, op: str) -> tuple[Value, int] | None:
    """The tensor and the axis of a reduction over one axis that keeps the axis with length 1.

    A Reshape or Unsqueeze may restore the axis. None if the value is something else.
    """
    reduced, (kind, attrs) = value, get_producer_op(value)
    if kind in ("Reshape", "Unsqueeze"):
        reduced = list_producer_inputs(value)[0]
        kind, attrs = get_producer_op(reduced)
    if kind != op or (reduced is value) != bool(attrs.get("keepdims", 1)):
        return None
    x, *rest = list_producer_inputs(reduced)
    shape, axes = get_shape(x), get_constant(rest[0]) if rest else attrs.get("axes")
    if not shape or axes is None or np.size(axes) != 1:
        return None
    axis = int(np.ravel(axes)[0]) % len(shape)
    keeps_axis = reduced is value or get_shape(value) == (*shape[:axis], 1, *shape[axis + 1 :])
    return (x, axis) if keeps_axis else None


def list_outputs_between(x: Value, last: Node) -> list[str]:
    """Names of the outputs of the nodes that compute the last one from x."""
    found: dict[str, None] = {}
    waiting = [last]
    while waiting:
        node = waiting.pop()
        found.update(dict.fromkeys(map(get_name, node.outputs)))
        for value in node.inputs:
            maker = None if value is None or value is x else value.producer()
            if maker is not None and get_name(maker.outputs[0]) not in found:
                waiting.append(maker)
    return list(found)
