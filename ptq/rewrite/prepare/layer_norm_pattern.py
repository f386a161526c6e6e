"""The pattern of a layer normalization in several operators.

    (x − m) · s [+ beta],   x · s − m · s [+ beta],   s = [gamma] / √(v + eps)
    m = mean(x),   v = mean((x − m)²)   or   v = mean(x²) − m², perhaps with 0 as its lower bound

over the last axis. Exporters write a quotient as a product too, and a difference as a sum with a negated value.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptq.model.graph import Graph
from ptq.model.node import (
    FLOAT_TYPES,
    Node,
    Value,
    get_constant,
    get_dtype,
    get_name,
    get_operator,
    get_shape,
    is_constant,
)
from ptq.rewrite.match import (
    find_sole_reader,
    get_producer_op,
    get_scalar_constant,
    is_close,
    list_outputs_between,
    list_producer_inputs,
    match_reduction,
    split_constant,
)

_MAX_DEPTH = 3
"""Nested sums and signs of the longest form, x·s + (beta − m·s) with a Neg."""
_POOLED_RANK = 3
"""A GlobalAveragePool of three axes is a mean over the last one."""


@dataclass(frozen=True, eq=False)
class LayerNormPattern:
    """A node that computes (x − mean(x)) / √(variance + epsilon) · gamma + beta.

    Attributes:
        node: The node.
        x: The tensor to normalize.
        size: Length of its last axis.
        epsilon: The eps of the equation.
        gamma: Constant factor of ``size`` elements; None if there is none.
        beta: Constant summand of ``size`` elements; None if there is none.
    """

    node: Node
    x: Value
    size: int
    epsilon: float
    gamma: Value | None
    beta: Value | None


@dataclass(frozen=True, eq=False)
class _Scaled:
    """tensor · gamma / √total; gamma is None if there is none."""

    tensor: Value
    total: Value
    gamma: Value | None


def find_layer_norms(graph: Graph) -> list[LayerNormPattern]:
    """The layer normalizations of a graph, each with all its operators."""
    found, inside = list[LayerNormPattern](), set[str]()
    for node in reversed(graph.nodes):
        pattern = None if get_name(node.outputs[0]) in inside else _match_layer_norm(node)
        if pattern is not None:
            found.append(pattern)
            inside.update(list_outputs_between(pattern.x, node))
    return found[::-1]


def _match_layer_norm(node: Node) -> LayerNormPattern | None:
    y = node.outputs[0]
    if get_operator(node) not in ("Add", "Div", "Mul", "Sub") or get_dtype(y) not in FLOAT_TYPES:
        return None
    terms = _sum_terms(y)
    betas = [value for sign, value in terms if is_constant(value) and sign > 0]
    products = [(sign, value) for sign, value in terms if not is_constant(value)]
    if len(terms) != len(betas) + len(products) or len(betas) > 1:
        return None
    found = _match_product(products)
    if found is None:
        return None
    x, scaled = found
    shape, constants = get_shape(x), [v for v in (scaled.gamma, *betas) if v is not None]
    if not shape or shape[-1] is None or len(get_shape(y) or ()) != len(shape):
        return None  # an eps of more axes than x would add axes to y
    if not all(_is_along_last_axis(value, shape[-1], len(shape)) for value in constants):
        return None
    epsilon = _match_epsilon(scaled.total, x)
    if epsilon is None:
        return None
    beta = betas[0] if betas else None
    return LayerNormPattern(node, x, shape[-1], epsilon, scaled.gamma, beta)


def _sum_terms(value: Value, sign: int = 1, depth: int = 0) -> list[tuple[int, Value]]:
    """The summands of a value, each with its sign; a summand that other nodes read too stays whole."""
    op, operands = get_producer_op(value)[0], list_producer_inputs(value)
    if (
        op not in ("Add", "Neg", "Sub")
        or depth > _MAX_DEPTH
        or (depth and find_sole_reader(value) is None)
    ):
        return [(sign, value)]
    first = -sign if op == "Neg" else sign
    signs = (first, -sign if op == "Sub" else sign)
    return [
        term
        for operand, sign in zip(operands, signs, strict=False)
        for term in _sum_terms(operand, sign, depth + 1)
    ]


def _match_product(products: list[tuple[int, Value]]) -> tuple[Value, _Scaled] | None:
    """The x of (x − m)·s or of x·s − m·s, and the scaled tensor."""
    found = [(sign, _match_scaled(value)) for sign, value in products]
    if len(found) == 1:
        (sign, scaled) = found[0]
        x = _match_centred(scaled.tensor) if scaled is not None and sign > 0 else None
        return None if x is None or scaled is None else (x, scaled)
    if len(found) != 2:
        return None
    for (plus, scaled), (minus, offset) in (found, found[::-1]):
        if scaled is None or offset is None or plus < 0:
            continue
        mean = offset.tensor
        if get_producer_op(mean)[0] == "Neg":
            mean, minus = list_producer_inputs(mean)[0], -minus
        same = scaled.total is offset.total and scaled.gamma is offset.gamma
        if same and minus < 0 and _match_mean(mean) is scaled.tensor:
            return scaled.tensor, scaled
    return None


def _match_scaled(value: Value) -> _Scaled | None:
    """The parts of tensor · gamma / √total, with gamma in any place; None if the value is something else."""
    whole, found = _match_quotient(value), split_constant(value, "Mul")
    if whole is not None or found is None or find_sole_reader(found[0]) is None:
        return whole
    inner, gamma = _match_quotient(found[0]), found[1]
    if inner is None or inner.gamma is not None or is_constant(inner.tensor):
        return None
    return _Scaled(inner.tensor, inner.total, gamma)


def _match_quotient(value: Value) -> _Scaled | None:
    """The parts of tensor / √total or of tensor · (gamma / √total); None if the value is something else."""
    op, operands = get_producer_op(value)[0], list_producer_inputs(value)
    if op == "Div":
        total = _match_root(operands[1])
        return None if total is None else _Scaled(operands[0], total, None)
    for tensor, factor in (operands, operands[::-1]) if op == "Mul" else ():
        scale = _match_scale(factor)
        if scale is not None and not is_constant(tensor):
            return _Scaled(tensor, *scale)
    return None


def _match_scale(value: Value) -> tuple[Value, Value | None] | None:
    """The total and the gamma of gamma / √total; gamma is None if it is 1."""
    op, operands = get_producer_op(value)[0], list_producer_inputs(value)
    total = _match_inverse_root(value)
    if total is not None:
        return total, None
    if op == "Div" and is_constant(operands[0]):
        total = _match_root(operands[1])
        return None if total is None else (total, operands[0])
    found = split_constant(value, "Mul")
    total = None if found is None else _match_inverse_root(found[0])
    return None if found is None or total is None else (total, found[1])


def _match_inverse_root(value: Value) -> Value | None:
    """The total of 1 / √total."""
    op, operands = get_producer_op(value)[0], list_producer_inputs(value)
    if op == "Reciprocal":
        return _match_root(operands[0])
    if op == "Div" and get_scalar_constant(operands[0]) == 1:
        return _match_root(operands[1])
    return operands[0] if op == "Pow" and get_scalar_constant(operands[1]) == -0.5 else None


def _match_root(value: Value) -> Value | None:
    """The total of √total."""
    op, operands = get_producer_op(value)[0], list_producer_inputs(value)
    is_root = op == "Sqrt" or (op == "Pow" and get_scalar_constant(operands[1]) == 0.5)
    return operands[0] if is_root else None


def _match_epsilon(total: Value, x: Value) -> float | None:
    """The positive eps of v + eps, with v the variance of x; None if the value is something else."""
    found = split_constant(total, "Add")
    epsilon = None if found is None else get_scalar_constant(found[1])
    if found is None or epsilon is None or epsilon <= 0 or not _is_variance(found[0], x):
        return None
    return epsilon


def _is_variance(value: Value, x: Value) -> bool:
    """Whether the value is mean((x − m)²) or mean(x²) − m²; exporters write x − m once or twice."""
    centred = _match_square(_match_mean(value))
    if centred is not None:
        return _match_centred(centred) is x
    op, operands = get_producer_op(value)[0], list_producer_inputs(value)
    if op == "Relu":
        return _is_variance(operands[0], x)
    if op == "Max" and len(operands) == 2:
        return any(
            get_scalar_constant(bound) == 0 and _is_variance(inner, x)
            for inner, bound in (operands, operands[::-1])
        )
    if op != "Sub":
        return False
    mean = _match_square(operands[1])
    return (
        _match_square(_match_mean(operands[0])) is x and mean is not None and _match_mean(mean) is x
    )


def _match_square(value: Value | None) -> Value | None:
    """The x of x²."""
    op, operands = (
        ("", []) if value is None else (get_producer_op(value)[0], list_producer_inputs(value))
    )
    if op == "Pow":
        return operands[0] if is_close(get_scalar_constant(operands[1]), 2.0) else None
    return operands[0] if op == "Mul" and operands[0] is operands[1] else None


def _match_centred(value: Value) -> Value | None:
    """The x of x − mean(x)."""
    if get_producer_op(value)[0] != "Sub":
        return None
    x, mean = list_producer_inputs(value)
    return x if _match_mean(mean) is x else None


def _match_mean(value: Value) -> Value | None:
    """The tensor of a mean over the last axis that keeps this axis."""
    if get_producer_op(value)[0] == "GlobalAveragePool":
        x = list_producer_inputs(value)[0]
        return x if len(get_shape(x) or ()) == _POOLED_RANK else None
    found = match_reduction(value, "ReduceMean")
    if found is None:
        return None
    x, axis = found
    return x if axis == len(get_shape(x) or ()) - 1 else None


def _is_along_last_axis(value: Value, size: int, rank: int) -> bool:
    """Whether a constant has one element for each place of the last axis."""
    array = get_constant(value)
    return array is not None and array.shape[-1:] == (size,) == (array.size,) and array.ndim <= rank
