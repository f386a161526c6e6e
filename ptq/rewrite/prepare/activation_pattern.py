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
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import FLOAT16, FLOAT32
from ptq.model.graph import Graph
from ptq.model.node import Node, Value, find_clip_bounds, get_dtype, get_shape, require_constant
from ptq.rewrite.match import (
    find_sole_reader,
    get_producer_op,
    get_scalar_constant,
    is_close,
    list_producer_inputs,
    match_add_constant,
    split_constant,
)

_MAX_FACTORS = 5
"""Values of a product; longer ones match no pattern: 0.044715 · x · x · x has the most."""
_MAX_DEPTH = 8
"""Nested products that are followed. A function of x has at most three, and exporters add few constant factors."""
_TYPES = (FLOAT32, FLOAT16)
"""Element types that ONNX Runtime has the functions for."""


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
    """The activation functions in several operators, each with its last node.

    Constants of several elements belong to a function up to the first product that has a name of its own: one that
    other nodes read, or the function itself.
    """
    found = dict[Value, tuple[Node, ActivationPattern]]()
    for node in graph.nodes:
        y = node.outputs[0]
        pattern = _match_multiple(y)
        if pattern is None:
            continue
        if pattern.scale is None or not (_is_part(y, pattern) or _is_multiple_of(y, found)):
            found[y] = (node, pattern)
    return list(found.values())


def _is_part(y: Value, pattern: ActivationPattern) -> bool:
    """Whether the only reader of a scaled function is the same function with one more factor."""
    reader = find_sole_reader(y)
    whole = None if reader is None else _match_multiple(reader.outputs[0])
    return whole is not None and whole.gate is pattern.gate


def _is_multiple_of(value: Value, others: Container[Value]) -> bool:
    """Whether a value is one of the others times constants."""
    while value not in others:
        found = split_constant(value, "Mul") or split_constant(value, "Div")
        if found is None:
            return False
        value = found[0]
    return True


def _match_multiple(y: Value) -> ActivationPattern | None:
    """The function that a value is, perhaps times a constant of several elements."""
    if get_producer_op(y)[0] not in ("Mul", "Div") or get_dtype(y) not in _TYPES:
        return None
    for gate in _factorize(y).values:
        pattern = _match_gate(gate)
        if pattern is None or get_shape(y) is None or get_shape(pattern.x) != get_shape(y):
            continue
        product = _factorize(y, pattern.x)
        if product.is_equal(pattern.factor, pattern.x, gate):
            return pattern
        if product.constants and product.has_values(pattern.x, gate):
            scale = _multiply(product.factor / pattern.factor, product.constants)
            scale = scale.astype(get_dtype(y))
            return replace(pattern, scale=scale) if np.isfinite(scale).all() else None
    return None


def _multiply(factor: float, constants: tuple[Value, ...]) -> NDArray[Any]:
    """The product of a number and constants, in float64."""
    result = np.asarray(factor)
    for constant in constants:
        array = require_constant(constant)
        result = result * array.astype(np.float64)
    return result


def _match_gate(gate: Value) -> ActivationPattern | None:
    """The function that has this gate, with the x that the other factor must be."""
    op, attrs = get_producer_op(gate)
    if op == "HardSigmoid":
        if is_close(attrs.get("alpha", 0.2), 1 / 6) and is_close(attrs.get("beta", 0.5), 0.5):
            return ActivationPattern("HardSwish", _get_first_input(gate), gate, 1.0, {})
        return None
    if op == "Clip":
        x = match_add_constant(_get_first_input(gate), 3.0)
        clip = gate.producer()
        if x is None or clip is None or find_clip_bounds(clip) != (0, 6):
            return None
        return ActivationPattern("HardSwish", x, gate, 1 / 6, {})
    if op == "Tanh" and get_producer_op(_get_first_input(gate))[0] == "Softplus":
        return ActivationPattern("Mish", _get_first_input(_get_first_input(gate)), gate, 1.0, {})
    inner = match_add_constant(gate, 1.0)
    if inner is None:
        return None
    op, _ = get_producer_op(inner)
    if op == "Erf":
        x = _match_scaled(_get_first_input(inner), math.sqrt(0.5))
        return None if x is None else ActivationPattern("Gelu", x, gate, 0.5, {})
    if op == "Tanh":
        x = _match_cubic(_match_scaled(_get_first_input(inner), math.sqrt(2 / math.pi)))
        attrs = {"approximate": "tanh"}
        return None if x is None else ActivationPattern("Gelu", x, gate, 0.5, attrs)
    return None


def _match_cubic(value: Value | None) -> Value | None:
    """The x of x + 0.044715 · x³; None if the value is something else."""
    if value is None or get_producer_op(value)[0] != "Add":
        return None
    first, second = list_producer_inputs(value)
    for x, cube in ((first, second), (second, first)):
        product = _factorize(cube, x)
        power = product.values[0]
        if (
            get_producer_op(power)[0] == "Pow"
            and get_scalar_constant(list_producer_inputs(power)[1]) == 3
        ):
            product = Product(product.factor, (list_producer_inputs(power)[0],) * 3)
        if product.is_equal(0.044715, x, x, x):
            return x
    return None


def _factorize(
    value: Value, atom: Value | None = None, most: int = _MAX_FACTORS, depth: int = _MAX_DEPTH
) -> Product:
    """The value as a product; one that has more values or is nested deeper stays whole inside it.

    Args:
        value: The value.
        atom: A factor that stays whole even if it is a product itself.
        most: The number of values that the product may have.
        depth: The number of nested products that may be followed.
    """
    single = Product(1.0, (value,))
    if value is atom or not depth:
        return single
    for op in ("Mul", "Div"):
        found = split_constant(value, op)
        if found is None:
            continue
        constant = get_scalar_constant(found[1])
        if op == "Div" and not constant:
            return single
        product = _factorize(found[0], atom, most, depth - 1)
        if constant is None:
            return replace(product, constants=(*product.constants, found[1]))
        factor = product.factor / constant if op == "Div" else product.factor * constant
        return replace(product, factor=factor)
    if get_producer_op(value)[0] != "Mul" or most < 2:
        return single
    a, b = list_producer_inputs(value)
    left = _factorize(a, atom, most - 1, depth - 1)
    right = _factorize(b, atom, most - len(left.values), depth - 1)
    factor, constants = left.factor * right.factor, left.constants + right.constants
    return Product(factor, left.values + right.values, constants)


def _match_scaled(value: Value, factor: float) -> Value | None:
    """The x of factor · x."""
    product = _factorize(value)
    if len(product.values) == 1 and not product.constants:
        return product.values[0] if product.is_equal(factor, *product.values) else None
    # x is a product itself, so only the last constant factor counts
    for op in ("Mul", "Div"):
        found = split_constant(value, op)
        constant = None if found is None else get_scalar_constant(found[1])
        if found is not None and constant:
            return found[0] if is_close(1 / constant if op == "Div" else constant, factor) else None
    return None


def _get_first_input(value: Value) -> Value:
    return list_producer_inputs(value)[0]
