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

from ptq.core.wording import counted
from ptq.model.graph import Graph
from ptq.model.node import FLOAT_TYPES, Node, Value, dtype_of, name_of, operator, shape_of
from ptq.rewrite.edit import replace
from ptq.rewrite.match import inputs_of, less_constant, maker, near, raised, scalar

SINCE = {"HardSwish": 14, "Mish": 18, "Gelu": 20}


_MOST_FACTORS = 5
"""0.044715 · x · x · x is the longest product here."""


@dataclass(frozen=True, eq=False)
class Product:
    """A constant times values, none of which is a product by itself."""

    factor: float
    values: tuple[Value, ...]

    def is_of(self, factor: float, *values: Value) -> bool:
        """Whether it is that constant times those values, in any order."""
        same = Counter(self.values) == Counter(values)
        return same and near(self.factor, factor)


@dataclass(frozen=True, eq=False)
class Named:
    """A node that puts out a function of x, all its factors but x and ``gate`` being a constant."""

    op: str
    x: Value
    gate: Value
    factor: float
    attrs: Mapping[str, Any]


def name_functions(graph: Graph) -> tuple[Graph, list[str]]:
    """Put functions in the place of their pieces, raising the opset to that of Mish or Gelu where they occur.

    Returns:
        The graph, and one sentence for each kind of change. Where ONNX's converter cannot raise the opset
        the pieces stay.
    """
    needed = max((SINCE[found.op] for _, found in _named(graph)), default=0)
    graph, changes = raised(graph, needed)
    counts: Counter[str] = Counter()
    for node, found in _named(graph):
        if SINCE[found.op] > graph.opset:
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
        replace(graph, node, result)
        counts[found.op] += 1
    graph.sweep()
    return graph, changes + [f"named {counted(n, f'{op} node')}" for op, n in counts.items()]


def _named(graph: Graph) -> list[tuple[Node, Named]]:
    """The nodes that put out a function with a name."""
    found = []
    for node in graph.nodes:
        y = node.outputs[0]
        if operator(node) not in ("Mul", "Div") or dtype_of(y) not in FLOAT_TYPES:
            continue
        for gate in _product(y).values:
            named = _gate(gate)
            if (
                named is not None
                and shape_of(y) is not None
                and shape_of(named.x) == shape_of(y)
                and _product(y, named.x).is_of(named.factor, named.x, gate)
            ):
                found.append((node, named))
                break
    return found


def _gate(gate: Value) -> Named | None:
    """The function that a factor belongs to, and the x that the other factor must be."""
    op, attrs = maker(gate)
    if op == "HardSigmoid":
        known = near(attrs.get("alpha", 0.2), 1 / 6) and near(attrs.get("beta", 0.5), 0.5)
        return Named("HardSwish", _first(gate), gate, 1.0, {}) if known else None
    if op == "Clip":
        x, bounds = less_constant(_first(gate), 3.0), [scalar(v) for v in inputs_of(gate)[1:]]
        return (
            Named("HardSwish", x, gate, 1 / 6, {}) if x is not None and bounds == [0, 6] else None
        )
    if op == "Tanh" and maker(_first(gate))[0] == "Softplus":
        return Named("Mish", _first(_first(gate)), gate, 1.0, {})
    inner = less_constant(gate, 1.0)
    if inner is None:
        return None
    op, _ = maker(inner)
    if op == "Erf":
        x = _unscaled(_first(inner), math.sqrt(0.5))
        return None if x is None else Named("Gelu", x, gate, 0.5, {})
    if op == "Tanh":
        x = _cubic(_unscaled(_first(inner), math.sqrt(2 / math.pi)))
        return None if x is None else Named("Gelu", x, gate, 0.5, {"approximate": "tanh"})
    return None


def _cubic(value: Value | None) -> Value | None:
    """The x of x + 0.044715 · x³; None where the value is something else."""
    if value is None or maker(value)[0] != "Add":
        return None
    first, second = inputs_of(value)
    for x, cube in ((first, second), (second, first)):
        product = _product(cube, x)
        power = product.values[0]
        if maker(power)[0] == "Pow" and scalar(inputs_of(power)[1]) == 3:
            product = Product(product.factor, (inputs_of(power)[0],) * 3)
        if product.is_of(0.044715, x, x, x):
            return x
    return None


def _product(value: Value, whole: Value | None = None) -> Product:
    """The value taken apart into factors; ``whole`` is not taken apart."""
    alone = Product(1.0, (value,))
    op, _ = maker(value)
    if value is whole or op not in ("Mul", "Div"):
        return alone
    a, b = inputs_of(value)
    by = scalar(b)
    if op == "Div":
        if not by:
            return alone
        product = _product(a, whole)
        return Product(product.factor / by, product.values)
    if by is None:
        a, b, by = b, a, scalar(a)
    if by is not None:
        product = _product(a, whole)
        return Product(product.factor * by, product.values)
    left, right = _product(a, whole), _product(b, whole)
    values = left.values + right.values
    return Product(left.factor * right.factor, values) if len(values) <= _MOST_FACTORS else alone


def _unscaled(value: Value, factor: float) -> Value | None:
    """The x of factor · x."""
    product = _product(value)
    if len(product.values) == 1:
        return product.values[0] if product.is_of(factor, *product.values) else None
    # x is a product itself
    op, _ = maker(value)
    if op not in ("Mul", "Div"):
        return None
    a, b = inputs_of(value)
    x, by = (a, scalar(b)) if scalar(b) is not None else (b, scalar(a))
    if not by or (op == "Div" and x is b):
        return None
    return x if near(1 / by if op == "Div" else by, factor) else None


def _first(value: Value) -> Value:
    return inputs_of(value)[0]
