"""Which nodes share one weight: the same array in the same layout, so that its integers can be the same too.

Shared are an initializer that several nodes read, and copies of it: a constant that a Transpose or an Identity of the
same initializer made, or that an exporter wrote once for each use. Not shared is a matrix that one node multiplies
by rows and another by columns (Gemm with transB, and Gemm without it or MatMul): scales lie along another axis, and
rounding adds other products.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import onnx_ir as ir

from ptq.core.opspec import WEIGHT_INPUT
from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    get_attributes,
    get_constant_shape,
    get_node_name,
    get_operator,
    require_constant,
)
from ptq.model.weights.layer_weights import get_channel_axis

_COMPARED_FIRST = 16
"""Values of an array by which most different arrays are distinguished."""


def find_weight_families(graph: Graph) -> dict[str, tuple[str, ...]]:
    """The names of all nodes that share a node's weight, by the name of each such node; all in graph order."""
    readers: dict[tuple[tuple[Any, ...], Value], list[str]] = {}
    for node in graph.nodes:
        value = node.inputs[WEIGHT_INPUT] if len(node.inputs) > WEIGHT_INPUT else None
        layout = _get_weight_layout(node, get_constant_shape(value))
        if value is not None and layout is not None:
            readers.setdefault((layout, value), []).append(get_node_name(node))
    groups: list[_Copies] = []
    by_key: dict[tuple[Any, ...], list[_Copies]] = {}
    for (layout, value), names in readers.items():
        key = (*layout, *_build_array_key(value))
        known = by_key.setdefault(key, [])
        equal = next((copies for copies in known if _is_same_array(copies.value, value)), None)
        if equal is None:
            equal = _Copies(value, [])
            known.append(equal)
            groups.append(equal)
        equal.names.extend(names)
    place = {get_node_name(node): number for number, node in enumerate(graph.nodes)}
    families = [tuple(sorted(copies.names, key=place.__getitem__)) for copies in groups]
    return {name: family for family in families if len(family) > 1 for name in family}


@dataclass(frozen=True, eq=False)
class _Copies:
    """Equal constants of one layout.

    Attributes:
        value: The first of them.
        names: The nodes that read one of them.
    """

    value: Value
    names: list[str]


def share_weights(graph: Graph) -> None:
    """Let all nodes that share a weight read one initializer, in place."""
    families, first = find_weight_families(graph), dict[str, Value | None]()
    for node in graph.nodes:
        family = families.get(get_node_name(node))
        if family is not None:
            node.replace_input_with(
                WEIGHT_INPUT, first.setdefault(family[0], node.inputs[WEIGHT_INPUT])
            )


def _is_same_array(one: Value, other: Value) -> bool:
    """Whether two constants have the same bytes, if their keys are equal."""
    return one is other or bool(np.array_equal(require_constant(one), require_constant(other)))


def _get_weight_layout(node: Node, shape: tuple[int, ...] | None) -> tuple[Any, ...] | None:
    """What must be equal for two nodes to read a weight in one way; None for an operator without weight layout."""
    axis = None if shape is None else get_channel_axis(node, len(shape))
    if axis is None or shape is None or not prod(shape):
        return None
    convolves = get_operator(node) in ("Conv", "ConvTranspose")
    groups = get_attributes(node).get("group", 1) if convolves else 0
    return convolves, axis, groups, shape


def _build_array_key(value: Value) -> tuple[Any, ...]:
    """Type and some values of a constant; a constant that is computed when it is read is like no other."""
    if isinstance(value.const_value, ir.LazyTensor):
        return (id(value),)
    flat = require_constant(value).reshape(-1)
    return flat.dtype.str, flat[:: max(1, flat.size // _COMPARED_FIRST)].tobytes()
