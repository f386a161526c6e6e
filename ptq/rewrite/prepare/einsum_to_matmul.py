"""Einsum of two operands → MatMul between Transpose and Reshape.

Each letter of the equation is one of these:

    batch       in both operands and in the output
    contracted  in both operands only: the products are added over it
    left        in the left operand and in the output
    right       in the right operand and in the output

    left operand    left letters but the last, batch, last left letter, contracted
    right operand   batch, contracted, right
    product         left letters but the last, batch, last left letter, right

A Reshape makes one axis of several contracted or right letters. Left ones need none: MatMul repeats the right operand
along leading axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ptq.model.graph import Graph
from ptq.model.node import (
    FLOAT_TYPES,
    Node,
    Value,
    get_attributes,
    get_constant,
    get_dtype,
    get_name,
    get_operator,
    is_constant,
)
from ptq.rewrite.change import Change
from ptq.rewrite.edit import insert_reshape, keep_node_name, replace_node
from ptq.rewrite.prepare.node_shapes import refine_node_shapes
from ptq.rewrite.prepare.shape_inference import get_symbolic_shape

_Groups = Sequence[str]
"""The axes of a tensor: the letters that each one holds, the first letter outermost; none for an axis of length 1."""


@dataclass(frozen=True)
class _Arrangement:
    """How a tensor gets other axes.

    Attributes:
        perm: The axes in their new order.
        sizes: The shape after that, as a Reshape takes it; None where it stays.
    """

    perm: tuple[int, ...]
    sizes: tuple[int, ...] | None


@dataclass(frozen=True, eq=False)
class _Product:
    """A MatMul that computes an Einsum.

    Attributes:
        left: The left operand of the MatMul.
        right: The right one: weights, if one of them is constant.
        left_axes: How the left one is arranged first.
        right_axes: How the right one is.
        split: The shape of the product with one axis for each letter; None where it has it.
        perm: These axes in the order of the output.
    """

    left: Value
    right: Value
    left_axes: _Arrangement
    right_axes: _Arrangement
    split: tuple[int, ...] | None
    perm: tuple[int, ...]


def rewrite_einsum_to_matmul(graph: Graph) -> list[Change]:
    """Replace each Einsum of two operands that is one matrix product by MatMul, in place.

    It stays if a letter repeats in an operand or is added in one alone, or if a Reshape cannot express the shapes: it
    has one -1, and 0 for a dimension that stays.
    """
    count = 0
    for node in graph.nodes:
        product = _match(node) if get_operator(node) == "Einsum" else None
        if product is None:
            continue
        made, result = _write(graph, node, product)
        replace_node(graph, node, result)
        keep_node_name(node, made)
        count += 1
    return [Change("einsum_to_matmul", count)] if count else []


def _parse(equation: str) -> tuple[str, str, str] | None:
    """The letters of two operands and of the output; None for another form."""
    operands, arrow, out = equation.replace(" ", "").partition("->")
    left, comma, right = operands.partition(",")
    if not comma or not (left + right + out).isalpha():  # an ellipsis, or more operands
        return None
    if not arrow:
        out = "".join(sorted(x for x in set(left + right) if (left + right).count(x) == 1))
    repeats = any(len(set(letters)) < len(letters) for letters in (left, right, out))
    alone = set(left) ^ set(right)
    return None if repeats or not alone <= set(out) <= set(left + right) else (left, right, out)


def _match(node: Node) -> _Product | None:
    equation = get_attributes(node).get("equation", "")
    letters = _parse(equation) if len(node.inputs) == 2 else None
    left, right = node.inputs if len(node.inputs) == 2 else (None, None)
    if letters is None or left is None or right is None:
        return None
    a, b, out = letters
    if is_constant(left):
        left, right, a, b = right, left, b, a  # weights stand on the right
    if (
        is_constant(left)
        or get_dtype(left) not in FLOAT_TYPES
        or get_dtype(left) != get_dtype(right)
    ):
        return None
    first, second = _find_lengths(left, a), _find_lengths(right, b)
    contracted = "".join(x for x in a if x not in out)
    if first is None or second is None or not contracted:
        return None
    if any(first[x] != second[x] for x in contracted):  # a length of 1 would be repeated
        return None
    batch = [x for x in out if x in a and x in b]
    kept = [x for x in out if x in a and x not in b]
    rows, columns = "".join(kept[-1:]), "".join(x for x in out if x in b and x not in a)
    lead = [*kept[:-1], *batch]
    lengths = {x: _join_lengths(first.get(x), second.get(x)) for x in out}
    made = [*lead, rows, columns]
    left_axes = _arrange(a, [*lead, rows, contracted], first)
    right_axes = _arrange(b, [*batch, contracted, columns], second)
    ordered = "".join(made)
    split = _reshape_sizes(made, ordered, lengths)
    if left_axes is None or right_axes is None or (split is None and not _is_ungrouped(made)):
        return None
    perm = tuple(ordered.index(x) for x in out)
    return _Product(
        left, right, left_axes, right_axes, None if _is_ungrouped(made) else split, perm
    )


def _find_lengths(value: Value, letters: str) -> dict[str, int | str] | None:
    """The length of the axis of each letter, a number or a symbol; None if the rank is not that of the letters."""
    shape = get_symbolic_shape(value)
    return (
        None
        if shape is None or len(shape) != len(letters)
        else dict(zip(letters, shape, strict=True))
    )


def _join_lengths(a: int | str | None, b: int | str | None) -> int | str:
    """The length of an axis of the output, which repeats a length of 1; a symbol if it is unknown."""
    found = [length for length in (a, b) if length is not None]
    if len(set(found)) == 1:
        return found[0]
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else "either"


def _arrange(
    letters: str, groups: _Groups, lengths: Mapping[str, int | str]
) -> _Arrangement | None:
    """How a tensor gets the axes of the groups; None if a Reshape cannot express them."""
    ordered = "".join(groups)
    perm = tuple(letters.index(x) for x in ordered)
    if _is_ungrouped(groups):
        return _Arrangement(perm, None)
    sizes = _reshape_sizes(ordered, groups, lengths)
    return None if sizes is None else _Arrangement(perm, sizes)


def _is_ungrouped(groups: _Groups) -> bool:
    return all(len(group) == 1 for group in groups)


def _reshape_sizes(
    before: _Groups, after: _Groups, lengths: Mapping[str, int | str]
) -> tuple[int, ...] | None:
    """The operand of a Reshape from one list of axes to another; None if it would need a second -1."""
    sizes = []
    for axis, group in enumerate(after):
        known = [length for x in group if isinstance(length := lengths[x], int)]
        if 0 in known:
            return None
        if len(known) == len(group):
            sizes.append(prod(known))
        else:
            sizes.append(0 if axis < len(before) and before[axis] == group else -1)
    return tuple(sizes) if sizes.count(-1) < 2 else None


def _write(graph: Graph, node: Node, product: _Product) -> tuple[Value, Value]:
    """The outputs of the MatMul and of the last node."""
    name = get_name(node.outputs[0])
    left = _insert_arranged(graph, node, product.left, product.left_axes, f"{name}_left")
    right = _insert_arranged(graph, node, product.right, product.right_axes, f"{name}_right")
    result = made = _insert(graph, node, "MatMul", [left, right], f"{name}_product")
    if product.split is not None:
        result = _insert_reshape(graph, node, result, product.split, f"{name}_split")
    return made, _insert_transpose(graph, node, result, product.perm, f"{name}_ordered")


def _insert_arranged(graph: Graph, node: Node, value: Value, how: _Arrangement, name: str) -> Value:
    array = get_constant(value)
    if array is not None:
        array = array.transpose(how.perm)
        return graph.add_constant(array if how.sizes is None else array.reshape(how.sizes), name)
    value = _insert_transpose(graph, node, value, how.perm, name)
    return value if how.sizes is None else _insert_reshape(graph, node, value, how.sizes, name)


def _insert_transpose(
    graph: Graph, node: Node, value: Value, perm: tuple[int, ...], name: str
) -> Value:
    if perm == tuple(range(len(perm))):
        return value
    return _insert(graph, node, "Transpose", [value], f"{name}_transposed", perm=list(perm))


def _insert_reshape(
    graph: Graph, node: Node, value: Value, sizes: tuple[int, ...], name: str
) -> Value:
    return _refine(graph, insert_reshape(graph, value, sizes, node, name))


def _insert(
    graph: Graph, node: Node, op: str, inputs: list[Value], name: str, **attrs: list[int]
) -> Value:
    dtype = get_dtype(inputs[0])
    made = graph.insert(op, inputs, before=node, attrs=attrs, output=name, dtype=dtype)
    return _refine(graph, made)


def _refine(graph: Graph, made: Value) -> Value:
    maker = made.producer()
    assert maker is not None
    refine_node_shapes(maker, graph.opset)
    return made
