"""Reshape and Expand without shape arithmetic at run time.

A Reshape target with at most one varying dimension is a constant. It has 0 where a dimension is copied from the same
axis of the data, and −1 where the other dimensions determine it. An Expand to the data's own shape has no effect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod

import numpy as np

from ptq.model.graph import Graph
from ptq.model.node import Node, get_name, is_constant
from ptq.rewrite.edit import set_attributes, set_constant
from ptq.rewrite.prepare.node_shapes import refine_shape
from ptq.rewrite.prepare.shape_inference import (
    Element,
    Elements,
    ShapeValues,
    build_shape_from_symbols,
    get_symbolic_shape,
)


def fold_reshape(graph: Graph, node: Node, values: ShapeValues) -> bool:
    """Replace the target of a Reshape by a constant that is right for every size; whether there is one."""
    data, target = node.inputs[0], values.elements_of(node.inputs[1])
    if data is None or target is None:
        return False
    if is_constant(node.inputs[1]):
        _infer_reshape_shape(node, target)
        return False
    allow_zero = "allowzero" in node.attributes and node.attributes["allowzero"].value == 1
    plain = _find_constant_target(target, get_symbolic_shape(data), allow_zero)
    if plain is None:
        return False
    set_constant(graph, node, 1, np.array(plain, np.int64), f"{get_name(node.outputs[0])}_shape")
    set_attributes(node, allowzero=None)
    _infer_reshape_shape(node, np.array(plain, dtype=object))
    return True


def _find_constant_target(
    target: Elements, sizes: tuple[int | str, ...] | None, allow_zero: bool
) -> list[int] | None:
    if target.ndim != 1 or (allow_zero and 0 in target.tolist()):
        return None
    plain: list[int] = []
    for axis, element in enumerate(target.tolist()):
        if isinstance(element, int):
            plain.append(element)
        elif sizes is not None and axis < len(sizes) and sizes[axis] == element:
            plain.append(0)
        else:
            plain.append(-1)
    return plain if plain.count(-1) <= 1 else None


def _infer_reshape_shape(node: Node, target: Elements) -> None:
    """Derive the output's shape from the data's shape, dimension by dimension."""
    sizes = None if node.inputs[0] is None else get_symbolic_shape(node.inputs[0])
    plain = target.reshape(-1).tolist()
    zero_beyond = sizes is None or 0 in plain[len(sizes) :]
    if sizes is None or zero_beyond or "allowzero" in node.attributes:
        return
    shape: list[Element] = [sizes[axis] if e == 0 else e for axis, e in enumerate(plain)]
    if -1 in shape:
        hole = shape.index(-1)
        shape[hole] = _infer_remaining_dimension(sizes, shape[:hole] + shape[hole + 1 :])
    refine_shape(node.outputs[0], build_shape_from_symbols(shape))


def _infer_remaining_dimension(sizes: Sequence[Element], others: Sequence[Element]) -> Element:
    total, fixed = (prod(e for e in side if isinstance(e, int)) for side in (sizes, others))
    left = Counter(e for e in sizes if isinstance(e, str))
    left.subtract(e for e in others if isinstance(e, str))
    symbols = [(symbol, count) for symbol, count in left.items() if count]
    if not symbols and fixed and total % fixed == 0:
        return total // fixed
    if len(symbols) == 1 and symbols[0][1] == 1 and total == fixed:
        return symbols[0][0]
    return None


def is_identity_expand(node: Node, values: ShapeValues) -> bool:
    """Whether an Expand returns its data unchanged: the data's shape already covers the target."""
    data, target = node.inputs[0], values.elements_of(node.inputs[1])
    sizes = None if data is None else get_symbolic_shape(data)
    if sizes is None or target is None or target.ndim != 1 or target.size > len(sizes):
        return False
    tail = sizes[len(sizes) - target.size :]
    return all(
        e == 1 or (e is not None and e == d) for e, d in zip(target.tolist(), tail, strict=True)
    )


def infer_expand_shape(node: Node, values: ShapeValues) -> None:
    """Derive the shape of an Expand's output from its target and its data."""
    data, target = node.inputs[0], values.elements_of(node.inputs[1])
    sizes = None if data is None else get_symbolic_shape(data)
    if sizes is None or target is None or target.ndim != 1:
        return
    rank = max(len(sizes), target.size)
    old = [1] * (rank - len(sizes)) + list(sizes)
    new = [1] * (rank - target.size) + target.tolist()
    shape: list[Element] = [
        wanted if size in (1, wanted) else size if wanted == 1 else None
        for size, wanted in zip(old, new, strict=True)
    ]
    refine_shape(node.outputs[0], build_shape_from_symbols(shape))
