"""The patterns of HardSwish, Mish and Gelu in several operators.

    HardSwish   x · clip(x + 3, 0, 6) / 6,   x · HardSigmoid(x; 1/6, 1/2)
    Mish        x · tanh(softplus(x))
    Gelu        x · (1 + erf(x / √2)) / 2,   x · (1 + tanh(√(2/π) · (x + 0.044715 · x³))) / 2

with the factors in any order. A constant factor for each channel may stand among them: exporters multiply a gate by
the scale of a BatchNormalization behind the function.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.model.graph import Graph
from ptq.model.node import (
    FLOAT_TYPES,
    Node,
    Value,
    constant_of,
    consumers_of,
    dtype_of,
    is_constant,
    operator_of,
    shape_of,
)
from ptq.rewrite.match import (
    is_close,
    match_add_constant,
    producer_inputs,
    producer_op,
    scalar_constant,
)

_MAX_FACTORS = 5
"""Longer products match no pattern: 0.044715 · x · x · x is the longest."""


@dataclass(frozen=True, eq=False)
class Product:
    """A number times values that are not products themselves, times constants of several elements."""

    factor: float
    values: tuple[Value, ...]
    constants: tuple[Value, ...] = ()

    def is_equal(self, factor: float, *values: Value) -> bool:
        """Whether the product is this number times these values, in any order."""
        return self.has_values(*values) and not self.constants and is_close(self.factor, factor)

    def has_values(self, *values: Value) -> bool:
        """Whether the values are these, in any order."""
        return Counter(self.values) == Counter(values)


@dataclass(frozen=True, eq=False)
class ActivationPattern:
    """An activation function written as factor · x · gate, perhaps times a constant.

    Attributes:
        op: The operator that computes the function.
        x: Its input.
        gate: The factor that is a function of x.
        factor: The constant factor of the function.
        attrs: Attributes of the operator.
        scale: The constant by which the product is larger than the function; None for 1.
    """

    op: str
    x: Value
    gate: Value
    factor: float
    attrs: Mapping[str, Any]
    scale: NDArray[Any] | None = None


def find_activations(graph: Graph) -> list[tuple[Node, ActivationPattern]]:
    """The activation functions in several operators, each with its last node."""
    found = []
    for node in graph.nodes:
        pattern = _match_activation(node.outputs[0]) or _match_scaled_activation(node)
        if pattern is not None:
            found.append((node, pattern))
    return found


def _match_activation(y: Value) -> ActivationPattern | None:
    """The function that a value is."""
    found = _match_product(y)
    if found is None or not found[1].is_equal(found[0].factor, found[0].x, found[0].gate):
        return None
    return found[0]


def _match_scaled_activation(node: Node) -> ActivationPattern | None:
    """The function that a node multiplies by a constant of several elements; None if it is a value of its own."""
    y = node.outputs[0]
    found = _match_product(y)
    if found is None or not found[1].constants:
        return None
    pattern, product = found
    readers = [] if y.is_graph_output() else consumers_of(y)
    if len(readers) == 1 and _scaled_value(readers[0]) is y:
        return None  # the reader is the whole product
    inner: Value | None = y
    while inner is not None and (maker := inner.producer()) is not None:
        inner = _scaled_value(maker)
        if inner is not None and _match_activation(inner) is not None:
            return None
    scale = np.asarray(product.factor / pattern.factor)
    for constant in product.constants:
        array = constant_of(constant)
        assert array is not None
        scale = scale * array.astype(np.float64)
    scale = scale.astype(dtype_of(y))
    return replace(pattern, scale=scale) if np.isfinite(scale).all() else None


def _scaled_value(node: Node) -> Value | None:
    """The value that a Mul or Div multiplies by a constant; None if the node is something else."""
    if operator_of(node) not in ("Mul", "Div"):
        return None
    x, other = node.inputs
    if operator_of(node) == "Mul" and is_constant(x):
        x, other = other, x
    return x if is_constant(other) else None


def _match_product(y: Value) -> tuple[ActivationPattern, Product] | None:
    """The function of which a value is a multiple, and the value as a product."""
    if producer_op(y)[0] not in ("Mul", "Div") or dtype_of(y) not in FLOAT_TYPES:
        return None
    for gate in _factorize(y).values:
        pattern = _match_gate(gate)
        if pattern is None or shape_of(y) is None or shape_of(pattern.x) != shape_of(y):
            continue
        product = _factorize(y, pattern.x)
        if product.has_values(pattern.x, gate):
            return pattern, product
    return None


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
        return replace(product, factor=product.factor / constant)
    if not is_constant(b):
        a, b, constant = b, a, scalar_constant(a)
    if constant is not None:
        product = _factorize(a, atom)
        return replace(product, factor=product.factor * constant)
    if is_constant(b):
        product = _factorize(a, atom)
        return replace(product, constants=(*product.constants, b))
    left, right = _factorize(a, atom), _factorize(b, atom)
    values = left.values + right.values
    factor, constants = left.factor * right.factor, left.constants + right.constants
    return Product(factor, values, constants) if len(values) <= _MAX_FACTORS else single


def _match_scaled(value: Value, factor: float) -> Value | None:
    """The x of factor · x."""
    product = _factorize(value)
    if len(product.values) == 1 and not product.constants:
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
