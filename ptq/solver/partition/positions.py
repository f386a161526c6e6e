"""Numbers that grow with the size of the input, such as the positions of a detector's grid of anchors.

They follow from what Shape returns, and are counted by Range. A range that was calibrated with small images would cut
them off in larger ones: boxes right of it would all land in one place. Sums over axes of open length grow too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

import numpy as np

from ptq.core.ops import ELEMENTWISE
from ptq.core.opspec import Role
from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    find_clip_bounds,
    get_attributes,
    get_constant,
    get_node_name,
    get_operator,
    get_shape,
    get_spec,
    is_float32,
)
from ptq.rewrite.prepare.last_bits import WHOLE_FUNCTIONS

_REASON = "it computes with positions, which in larger inputs exceed any calibrated range"
_SUM_REASON = (
    "it sums over an axis of open length; with a longer one, sums exceed any calibrated range"
)
# the inputs with which an output grows, by operator
_ALL_INPUTS = ELEMENTWISE | {"Concat", "MatMul", "Range"}
_SUMS = frozenset(
    ["ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceProd", "ReduceSum", "ReduceSumSquare"]
)
_FIRST_INPUT = _SUMS | WHOLE_FUNCTIONS | {"Exp", "Log", "ReduceLogSumExp", "ReduceMean", "Softplus"}
_KEEPING_NUMBERS = frozenset(["Expand", "Reshape", "Squeeze", "Transpose", "Unsqueeze"])
_SOME_INPUTS = {"ScatterElements": (0, 2), "ScatterND": (0, 2), "Where": (1, 2)}


def find_nodes_with_positions(graph: Graph) -> dict[str, str]:
    """The nodes that read numbers which grow with the size of the input, with the reason to keep them float."""
    growing, shares, found = set[Value](), set[Value](), dict[str, str]()
    for node in graph.nodes:
        if get_operator(node) in ("Shape", "Size"):
            growing.update(node.outputs)
            continue
        sums_more = _is_sum_over_open_axes(node)
        if sums_more or any(is_float32(v) for v in _list_operands(node) if v in growing):
            found[get_node_name(node)] = _REASON if not sums_more else _SUM_REASON
        values, divisor = _list_values(node), _find_divisor(node)
        if divisor in growing:
            # a share of the size: times a position it does not grow
            if growing.isdisjoint(values):
                shares.update(node.outputs)
        elif sums_more or (not growing.isdisjoint(values) and shares.isdisjoint(values)):
            growing.update(node.outputs)
    return found


def _is_sum_over_open_axes(node: Node) -> bool:
    """Whether the node sums float values over an axis whose length the model leaves open; the batch is none."""
    value = node.inputs[0] if get_operator(node) in _SUMS else None
    shape = None if value is None or not is_float32(value) else get_shape(value)
    if value is None or shape is None or _is_weighted_by_softmax(value):
        return False
    given = node.inputs[1] if len(node.inputs) > 1 else None
    axes = get_attributes(node).get("axes", None if given is None else get_constant(given))
    if axes is None:
        return None in shape[1:]
    return any(shape[axis] is None for axis in np.asarray(axes).reshape(-1) if axis % len(shape))


def _is_weighted_by_softmax(value: Value) -> bool:
    """Whether a value is a product with what a Softmax computes: its sum is a mean, as in attention pooling."""
    maker = value.producer()
    for factor in maker.inputs if maker is not None and get_operator(maker) == "Mul" else ():
        source = None if factor is None else factor.producer()
        while source is not None and get_operator(source) in _KEEPING_NUMBERS:
            source = None if source.inputs[0] is None else source.inputs[0].producer()
        if source is not None and get_operator(source) == "Softmax":
            return True
    return False


def _list_operands(node: Node) -> Iterator[Value]:
    """The inputs that would be quantized."""
    spec = get_spec(node)
    for position, value in enumerate(node.inputs):
        role = None if spec is None else spec.role_of(position)
        if value is not None and role in (Role.ACTIVATION, Role.WEIGHT):
            yield value


def _list_values(node: Node) -> Collection[Value | None]:
    """The inputs with which the output grows; none where its values are bounded, as those of a comparison are."""
    operator, spec = get_operator(node), get_spec(node)
    if operator == "Div":
        return node.inputs[:1]
    if operator in _ALL_INPUTS:
        return node.inputs
    if operator in _SOME_INPUTS:
        return [node.inputs[k] for k in _SOME_INPUTS[operator] if k < len(node.inputs)]
    if operator == "Clip":
        bounds = find_clip_bounds(node)
        return node.inputs[:1] if bounds is None or bounds[1] == math.inf else ()
    moves = spec is not None and spec.moves_integers
    return node.inputs[:1] if moves or operator in _FIRST_INPUT else ()


def _find_divisor(node: Node) -> Value | None:
    """The input that the output shrinks with."""
    operator = get_operator(node)
    if operator == "Div":
        return node.inputs[1]
    return node.inputs[0] if operator == "Reciprocal" else None
