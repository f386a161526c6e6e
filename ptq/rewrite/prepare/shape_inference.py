"""Elements of small integer tensors that are computed from shapes.

Each element is an integer, the symbol of one dimension, or None for an unknown number. A symbol is a string; equal
symbols are equal numbers, at least 0. The tensors are numpy arrays of these objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from ptq.kernels.shape import make_slice
from ptq.model.node import Node, Value, get_attributes, get_constant, get_dtype, get_operator

Element = int | str | None
Elements = NDArray[np.object_]
MAX_ELEMENTS = 64
"""Shapes and pads are far shorter; larger tensors are not followed."""
NAMED_PREFIX = "dim "
"""Before the names that the model itself gives to dimensions."""


def get_symbolic_shape(value: Value) -> tuple[int | str, ...] | None:
    """The shape with a symbol for each dimension that varies; None if the rank is unknown."""
    if value.shape is None:
        return None
    symbols: list[int | str] = []
    for axis, size in enumerate(value.shape):
        if isinstance(size, int) and size >= 0:
            symbols.append(size)
            continue
        name = None if isinstance(size, int) else size.value
        # Exporters write '?' and 'None' for dimensions that are independent of each other.
        named = name is not None and name != "None" and any(c.isalnum() for c in name)
        symbols.append(f"{NAMED_PREFIX}{name}" if named else f"axis {axis} of {value.name}")
    return tuple(symbols)


def build_shape_from_symbols(symbols: Iterable[Element]) -> ir.Shape:
    """The shape for these symbols: names of the model stay, other symbols become unknown dimensions."""
    return ir.Shape([_to_model_symbol(e) for e in symbols])


def _to_model_symbol(symbol: Element) -> int | str | None:
    if isinstance(symbol, str):
        return symbol.removeprefix(NAMED_PREFIX) if symbol.startswith(NAMED_PREFIX) else None
    return symbol


class ShapeValues:
    """The elements of the tensors that one walk over the nodes has visited."""

    def __init__(self) -> None:
        self._elements: dict[Value, Elements] = {}

    def elements_of(self, value: Value | None) -> Elements | None:
        """The elements of a value; None if it was neither visited nor is a small constant."""
        if value is None:
            return None
        if value in self._elements:
            return self._elements[value]
        if value.const_value is None or value.const_value.size > MAX_ELEMENTS:
            return None
        array = get_constant(value)
        return None if array is None or array.dtype.kind not in "iub" else array.astype(object)

    def is_equal(self, a: Value, b: Value) -> bool:
        """Whether two values are certainly equal in every element."""
        first, second = self.elements_of(a), self.elements_of(b)
        if first is None or second is None or first.shape != second.shape:
            return False
        pairs = zip(first.reshape(-1), second.reshape(-1), strict=True)
        return all(e is not None and e == f for e, f in pairs)

    def visit(self, node: Node) -> Elements | None:
        """Compute and store the elements of a node's output; None if they cannot be followed."""
        rule = RULES.get(get_operator(node))
        dtype = get_dtype(node.outputs[0])
        if (
            rule is None
            or len(node.outputs) != 1
            or (dtype is not None and dtype.kind not in "iub")
        ):
            return None
        if node.op_type == "Shape":
            x = node.inputs[0]
            sizes = None if x is None else get_symbolic_shape(x)
            if sizes is None:
                return None
            inputs = [np.array(sizes, dtype=object)]
        else:
            found = [self.elements_of(v) for v in node.inputs]
            if any(f is None for f in found):
                return None
            inputs = [f for f in found if f is not None]
        result = _apply(rule, inputs, get_attributes(node))
        if result is not None and result.size <= MAX_ELEMENTS:
            self._elements[node.outputs[0]] = result
            return result
        return None


Rule = Callable[[list[Elements], Mapping[str, Any]], Any]


def _apply(rule: Rule, inputs: list[Elements], attrs: Mapping[str, Any]) -> Elements | None:
    try:
        return np.asarray(rule(inputs, attrs), dtype=object)
    except (TypeError, IndexError, ValueError, OverflowError, NotImplementedError):
        return None  # an unknown index, a number beyond 64 bits, or a form that no exporter writes


def _require_integers(elements: Elements) -> list[int]:
    plain = [int(e) for e in elements.reshape(-1) if isinstance(e, int | np.integer)]
    if len(plain) < elements.size:
        raise TypeError("an element is unknown")
    return plain


def _slice(inputs: list[Elements], attrs: Mapping[str, Any]) -> Elements:
    data, starts, ends = inputs[0], _require_integers(inputs[1]), _require_integers(inputs[2])
    axes = _require_integers(inputs[3]) if len(inputs) > 3 else list(range(len(starts)))
    steps = _require_integers(inputs[4]) if len(inputs) > 4 else [1] * len(starts)
    index = [slice(None)] * data.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        index[axis] = make_slice(start, end, step, data.shape[axis])
    return data[tuple(index)]


def _find_axes(inputs: list[Elements], attrs: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The axes of a Squeeze or Unsqueeze, which are an attribute before opset 13; None for no axes."""
    if len(inputs) > 1:
        return tuple(_require_integers(inputs[1]))
    return tuple(attrs["axes"]) if "axes" in attrs else None


def _cast(inputs: list[Elements], attrs: Mapping[str, Any]) -> Any:
    dtype = ir.DataType(attrs["to"]).numpy()
    if dtype.kind not in "iub":
        raise NotImplementedError("elements are integers")

    def cast(element: Element) -> Element:
        if isinstance(element, int | np.integer):
            converted: int = np.array(element).astype(dtype).item()
            return converted
        return element if dtype.kind == "i" and dtype.itemsize >= 4 else None  # sizes fit in int32

    return np.frompyfunc(cast, 1, 1)(inputs[0])


def _make_elementwise(rule: Callable[[Element, Element], Element]) -> Rule:
    ufunc = np.frompyfunc(rule, 2, 1)

    def apply(inputs: list[Elements], attrs: Mapping[str, Any]) -> Any:
        result: Any = inputs[0]
        for other in inputs[1:]:
            result = ufunc(result, other)
        return result

    return apply


def _are_integers(a: Element, b: Element) -> bool:
    return isinstance(a, int) and isinstance(b, int)


def _add(a: Element, b: Element) -> Element:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    return b if a == 0 else a if b == 0 else None


def _subtract(a: Element, b: Element) -> Element:
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    return a if b == 0 else 0 if a is not None and a == b else None


def _multiply(a: Element, b: Element) -> Element:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    return 0 if 0 in (a, b) else b if a == 1 else a if b == 1 else None


def _divide(a: Element, b: Element) -> Element:
    if isinstance(a, int) and isinstance(b, int) and b != 0:
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)  # ONNX truncates
    return a if b == 1 else None


def _choose_extreme(choose: Callable[[int, int], int], a: Element, b: Element) -> Element:
    if isinstance(a, int) and isinstance(b, int):
        return choose(a, b)
    return a if a == b else None


def _compare(a: Element, b: Element) -> Element:
    if a is None or b is None:
        return None
    if a == b:
        return True
    differ = _are_integers(a, b) or any(isinstance(e, int) and e < 0 for e in (a, b))
    return False if differ else None


def _select(condition: Element, a: Element, b: Element) -> Element:
    if isinstance(condition, int):
        return a if condition else b
    return a if a == b else None  # a symbol may be 0


RULES: Mapping[str, Rule] = {
    "Shape": lambda i, at: i[0][at.get("start", 0) : at.get("end", len(i[0]))],
    "Identity": lambda i, at: i[0],
    "Cast": _cast,
    "Gather": lambda i, at: np.take(
        i[0], np.array(_require_integers(i[1]), np.int64).reshape(i[1].shape), at.get("axis", 0)
    ),
    "Slice": _slice,
    "Concat": lambda i, at: np.concatenate(i, axis=at["axis"]),
    "Unsqueeze": lambda i, at: np.expand_dims(i[0], _find_axes(i, at) or ()),
    "Squeeze": lambda i, at: np.squeeze(i[0], _find_axes(i, at)),
    "Reshape": lambda i, at: i[0].reshape(_require_integers(i[1])),
    "Transpose": lambda i, at: np.transpose(i[0], at.get("perm")),
    "Add": _make_elementwise(_add),
    "Sub": _make_elementwise(_subtract),
    "Mul": _make_elementwise(_multiply),
    "Div": _make_elementwise(_divide),
    "Min": _make_elementwise(partial(_choose_extreme, min)),
    "Max": _make_elementwise(partial(_choose_extreme, max)),
    "Equal": _make_elementwise(_compare),
    "Where": lambda i, at: np.frompyfunc(_select, 3, 1)(*i),
}
"""The effect of each operator on elements. Reshape needs no rule for 0, because its arrays would be empty."""
