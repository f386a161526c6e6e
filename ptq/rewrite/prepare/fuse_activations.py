"""Which arithmetic in pieces is a function that ONNX has a name for?

    HardSwish (opset 14)   x · clip(x + 3, 0, 6) / 6,   x · HardSigmoid(x; 1/6, 1/2)
    Mish      (opset 18)   x · tanh(softplus(x))
    Gelu      (opset 20)   x · (1 + erf(x / √2)) / 2,   x · (1 + tanh(√(2/π) · (x + 0.044715 · x³))) / 2

each in whatever order the factors stand. One function is one rounding to 8 bits; its pieces are up to five.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ptq.core.wording import plural
from ptq.model.graph import Graph
from ptq.model.node import FLOAT_TYPES, Node, Value, dtype_of, name_of, operator_of, shape_of
from ptq.rewrite.edit import replace_node
from ptq.rewrite.match import (
    is_close,
    match_add_constant,
    producer_inputs,
    producer_op,
    scalar_constant,
    try_upgrade_opset,
)

MIN_OPSETS = {"HardSwish": 14, "Mish": 18, "Gelu": 20}


_MAX_FACTORS = 5
"""0.044715 · x · x · x is the longest product here."""


@dataclass(frozen=True, eq=False)
class Product:
    """A constant times values, none of which is a product by itself."""

    factor: float
    values: tuple[Value, ...]

    def is_equal(self, factor: float, *values: Value) -> bool:
        """Whether it is that constant times those values, in any order."""
        same = Counter(self.values) == Counter(values)
        return same and is_close(self.factor, factor)


@dataclass(frozen=True, eq=False)
class ActivationPattern:
    """A node that puts out a function of x, all its factors but x and ``gate`` being a constant."""

    op: str
    x: Value
    gate: Value
    factor: float
    attrs: Mapping[str, Any]


def fuse_activations(graph: Graph) -> tuple[Graph, list[str]]:
    """Put functions in the place of their pieces, raising the opset to that of Mish or Gelu where they occur.

    Returns:
        The graph, and one sentence for each kind of change. Where ONNX's converter cannot raise the opset
        the pieces stay.
    """
    needed = max((MIN_OPSETS[found.op] for _, found in _find_activations(graph)), default=0)
    graph, changes = try_upgrade_opset(graph, needed)
    counts: Counter[str] = Counter()
    for node, found in _find_activations(graph):
        if MIN_OPSETS[found.op] > graph.opset:
            continue
        y = node.outputs[0]
        result = graph.insert(
            found.op,
            [found.x],
            before=node,
            attrs=found.attrs,
            output=f"{name_of(y)}_named",
            dtype=dtype_of(y),
            shape_like=y,
        )
        replace_node(graph, node, result)
        counts[found.op] += 1
    graph.remove_unused()
    return graph, changes + [f"named {plural(n, f'{op} node')}" for op, n in counts.items()]


def _find_activations(graph: Graph) -> list[tuple[Node, ActivationPattern]]:
    """The nodes that put out a function with a name."""
    found = []
    for node in graph.nodes:
        y = node.outputs[0]
        if operator_of(node) not in ("Mul", "Div") or dtype_of(y) not in FLOAT_TYPES:
            continue
        for gate in _factorize(y).values:
            named = _match_gate(gate)
            if (
                named is not None
                and shape_of(y) is not None
                and shape_of(named.x) == shape_of(y)
                and _factorize(y, named.x).is_equal(named.factor, named.x, gate)
            ):
                found.append((node, named))
                break
    return found


def _match_gate(gate: Value) -> ActivationPattern | None:
    """The function that a factor belongs to, and the x that the other factor must be."""
    op, attrs = producer_op(gate)
    if op == "HardSigmoid":
        known = is_close(attrs.get("alpha", 0.2), 1 / 6) and is_close(attrs.get("beta", 0.5), 0.5)
        return ActivationPattern("HardSwish", _first_input(gate), gate, 1.0, {}) if known else None
    if op == "Clip":
        x, bounds = (
            match_add_constant(_first_input(gate), 3.0),
            [scalar_constant(v) for v in producer_inputs(gate)[1:]],
        )
        return (
            ActivationPattern("HardSwish", x, gate, 1 / 6, {})
            if x is not None and bounds == [0, 6]
            else None
        )
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
        return (
            None if x is None else ActivationPattern("Gelu", x, gate, 0.5, {"approximate": "tanh"})
        )
    return None


def _match_cubic(value: Value | None) -> Value | None:
    """The x of x + 0.044715 · x³; None where the value is something else."""
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


def _factorize(value: Value, whole: Value | None = None) -> Product:
    """The value taken apart into factors; ``whole`` is not taken apart."""
    alone = Product(1.0, (value,))
    op, _ = producer_op(value)
    if value is whole or op not in ("Mul", "Div"):
        return alone
    a, b = producer_inputs(value)
    by = scalar_constant(b)
    if op == "Div":
        if not by:
            return alone
        product = _factorize(a, whole)
        return Product(product.factor / by, product.values)
    if by is None:
        a, b, by = b, a, scalar_constant(a)
    if by is not None:
        product = _factorize(a, whole)
        return Product(product.factor * by, product.values)
    left, right = _factorize(a, whole), _factorize(b, whole)
    values = left.values + right.values
    return Product(left.factor * right.factor, values) if len(values) <= _MAX_FACTORS else alone


def _match_scaled(value: Value, factor: float) -> Value | None:
    """The x of factor · x."""
    product = _factorize(value)
    if len(product.values) == 1:
        return product.values[0] if product.is_equal(factor, *product.values) else None
    # x is a product itself
    op, _ = producer_op(value)
    if op not in ("Mul", "Div"):
        return None
    a, b = producer_inputs(value)
    x, by = (a, scalar_constant(b)) if scalar_constant(b) is not None else (b, scalar_constant(a))
    if not by or (op == "Div" and x is b):
        return None
    return x if is_close(1 / by if op == "Div" else by, factor) else None


def _first_input(value: Value) -> Value:
    return producer_inputs(value)[0]
