"""Elementary operators → HardSwish, Mish or Gelu.

    HardSwish (opset 14)   x · clip(x + 3, 0, 6) / 6,   x · HardSigmoid(x; 1/6, 1/2)
    Mish      (opset 18)   x · tanh(softplus(x))
    Gelu      (opset 20)   x · (1 + erf(x / √2)) / 2,   x · (1 + tanh(√(2/π) · (x + 0.044715 · x³))) / 2

with the factors in any order. The named operator rounds to 8 bits once; the separate operators round up to five
times.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ptq.model.graph import Graph
from ptq.model.node import FLOAT_TYPES, Node, Value, dtype_of, name_of, operator_of, shape_of
from ptq.rewrite.change import Change
from ptq.rewrite.edit import replace_node
from ptq.rewrite.match import (
    is_close,
    match_add_constant,
    outputs_between,
    producer_inputs,
    producer_op,
    scalar_constant,
)
from ptq.rewrite.prepare.upgrade_opset import opset_too_old, try_upgrade_opset

MIN_OPSETS = {"HardSwish": 14, "Mish": 18, "Gelu": 20}
_MAX_FACTORS = 5
"""Longer products match no pattern: 0.044715 · x · x · x is the longest."""


@dataclass(frozen=True, eq=False)
class Product:
    """A constant times values that are not products themselves."""

    factor: float
    values: tuple[Value, ...]

    def is_equal(self, factor: float, *values: Value) -> bool:
        """Whether the product is this constant times these values, in any order."""
        same_values = Counter(self.values) == Counter(values)
        return same_values and is_close(self.factor, factor)


@dataclass(frozen=True, eq=False)
class ActivationPattern:
    """An activation function written as factor · x · gate.

    Attributes:
        op: The operator that computes the function.
        x: Its input.
        gate: The factor that is a function of x.
        factor: The constant factor.
        attrs: Attributes of the operator.
    """

    op: str
    x: Value
    gate: Value
    factor: float
    attrs: Mapping[str, Any]


def fuse_activations(graph: Graph, *, keep_opset: bool = False) -> list[Change]:
    """Replace the operators of HardSwish, Mish and Gelu by one node, in place; raises the opset as needed.

    Declines if ONNX's converter cannot raise the opset, or if ``keep_opset`` is set and it would have to.
    """
    needed = max((MIN_OPSETS[pattern.op] for _, pattern in _find_activations(graph)), default=0)
    changes = try_upgrade_opset(graph, needed, keep=keep_opset)
    fused, declined, floats = Counter[str](), Counter[str](), dict[str, list[str]]()
    for node, pattern in _find_activations(graph):
        if MIN_OPSETS[pattern.op] > graph.opset:
            declined[pattern.op] += 1
            floats.setdefault(pattern.op, []).extend(outputs_between(pattern.x, node))
            continue
        y = node.outputs[0]
        result = graph.insert(
            pattern.op,
            [pattern.x],
            before=node,
            attrs=pattern.attrs,
            output=f"{name_of(y)}_named",
            dtype=dtype_of(y),
            shape_like=y,
        )
        replace_node(graph, node, result)
        fused[pattern.op] += 1
    graph.remove_unused()
    changes += [Change("fuse_activations", n, new=op) for op, n in fused.items()]
    for op, n in declined.items():
        reason = opset_too_old(graph, MIN_OPSETS[op], keep=keep_opset)
        stay = tuple(floats[op]) if keep_opset else ()
        changes.append(Change("fuse_activations", n, new=op, declined=reason, stay_float=stay))
    return changes


def _find_activations(graph: Graph) -> list[tuple[Node, ActivationPattern]]:
    found = []
    for node in graph.nodes:
        y = node.outputs[0]
        if operator_of(node) not in ("Mul", "Div") or dtype_of(y) not in FLOAT_TYPES:
            continue
        for gate in _factorize(y).values:
            pattern = _match_gate(gate)
            if (
                pattern is not None
                and shape_of(y) is not None
                and shape_of(pattern.x) == shape_of(y)
                and _factorize(y, pattern.x).is_equal(pattern.factor, pattern.x, gate)
            ):
                found.append((node, pattern))
                break
    return found


def _match_gate(gate: Value) -> ActivationPattern | None:
    """The function that has this gate, with the x that the other factor must be."""
    op, attrs = producer_op(gate)
    if op == "HardSigmoid":
        if is_close(attrs.get("alpha", 0.2), 1 / 6) and is_close(attrs.get("beta", 0.5), 0.5):
            return ActivationPattern("HardSwish", _first_input(gate), gate, 1.0, {})
        return None
    if op == "Clip":
        x = match_add_constant(_first_input(gate), 3.0)
        bounds = [scalar_constant(v) for v in producer_inputs(gate)[1:]]
        if x is None or bounds != [0, 6]:
            return None
        return ActivationPattern("HardSwish", x, gate, 1 / 6, {})
    if op == "Tanh" and producer_op(_first_input(gate))[0] == "Softplus":
        return ActivationPattern("Mish", _first_input(_first_input(gate)), gate, 1.0, {})
    inner = match_add_constant(gate, 1.0)
    if inner is None:
        return None
    op, _ = producer_op(inner)
    if op == "Erf":
        x = _match_scaled(_first_input(inner), math.sqrt(0.5))
        return None if x is None else ActivationPattern("Gelu", x, gate, 0.5, {})
    if op == "Tanh":
        x = _match_cubic(_match_scaled(_first_input(inner), math.sqrt(2 / math.pi)))
        attrs = {"approximate": "tanh"}
        return None if x is None else ActivationPattern("Gelu", x, gate, 0.5, attrs)
    return None


def _match_cubic(value: Value | None) -> Value | None:
    """The x of x + 0.044715 · x³; None if the value is something else."""
    if value is None or producer_op(value)[0] != "Add":
        return None
    first, second = producer_inputs(value)
    for x, cube in ((first, second), (second, first)):
        product = _factorize(cube, x)
        power = product.values[0]
        if producer_op(power)[0] == "Pow" and scalar_constant(producer_inputs(power)[1]) == 3:
            product = Product(product.factor, (producer_inputs(power)[0],) * 3)
        if product.is_equal(0.044715, x, x, x):
            return x
    return None


def _factorize(value: Value, atom: Value | None = None) -> Product:
    """The value as a product; ``atom`` is one factor even if it is a product itself."""
    single = Product(1.0, (value,))
    op, _ = producer_op(value)
    if value is atom or op not in ("Mul", "Div"):
        return single
    a, b = producer_inputs(value)
    constant = scalar_constant(b)
    if op == "Div":
        if not constant:
            return single
        product = _factorize(a, atom)
        return Product(product.factor / constant, product.values)
    if constant is None:
        a, b, constant = b, a, scalar_constant(a)
    if constant is not None:
        product = _factorize(a, atom)
        return Product(product.factor * constant, product.values)
    left, right = _factorize(a, atom), _factorize(b, atom)
    values = left.values + right.values
    return Product(left.factor * right.factor, values) if len(values) <= _MAX_FACTORS else single


def _match_scaled(value: Value, factor: float) -> Value | None:
    """The x of factor · x."""
    product = _factorize(value)
    if len(product.values) == 1:
        return product.values[0] if product.is_equal(factor, *product.values) else None
    # x is a product itself, so only the last constant factor counts
    op, _ = producer_op(value)
    if op not in ("Mul", "Div"):
        return None
    a, b = producer_inputs(value)
    x, constant = (a, scalar_constant(b))
    if constant is None:
        x, constant = b, scalar_constant(a)
    if not constant or (op == "Div" and x is b):
        return None
    return x if is_close(1 / constant if op == "Div" else constant, factor) else None


def _first_input(value: Value) -> Value:
    return producer_inputs(value)[0]
