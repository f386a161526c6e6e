"""Elementwise operators: sums, products, comparisons, selections, quantizers.

Operands are stored in one order. A constant with fewer axes gets axes of length 1 in front, as ONNX broadcasts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ptq.core.errors import UnsupportedError
from ptq.rewrite.tflite.emitter import Emitter, find_common_order
from ptq.rewrite.tflite.operations import Operation
from ptq.rewrite.tflite.orders import Order, order_naturally, permute_shape

_BINARY: Mapping[str, tuple[str, str | None]] = {
    "Add": ("ADD", "AddOptions"),
    "Sub": ("SUB", "SubOptions"),
    "Mul": ("MUL", "MulOptions"),
    "Div": ("DIV", "DivOptions"),
    "Equal": ("EQUAL", "EqualOptions"),
    "Greater": ("GREATER", "GreaterOptions"),
    "GreaterOrEqual": ("GREATER_EQUAL", "GreaterEqualOptions"),
    "Less": ("LESS", "LessOptions"),
    "LessOrEqual": ("LESS_EQUAL", "LessEqualOptions"),
    "Pow": ("POW", "PowOptions"),
    "And": ("LOGICAL_AND", "LogicalAndOptions"),
    "Or": ("LOGICAL_OR", "LogicalOrOptions"),
}
_WIDE = (np.dtype(np.int64), np.dtype(np.float64))
_FUSES_ACTIVATION = ("Add", "Sub", "Mul", "Div")


def write_binary(e: Emitter, o: Operation) -> None:
    """An operator of two operands."""
    builtin, options = _BINARY[o.op]
    names = [str(name) for name in o.inputs]
    order = find_common_order(e, names)
    fields = {"fusedActivationFunction": e.activation(o)} if o.op in _FUSES_ACTIVATION else {}
    if o.op in ("Add", "Sub"):
        fields["potScaleInt16"] = (
            False  # else LiteRT adds scales of powers of two by shifts, or refuses them
        )
    dtype = _find_exponent_type(e, o) if o.op == "Pow" else _find_common_type(e, o)
    inputs = [_read_operand(e, name, order, dtype) for name in names]
    e.op(builtin, inputs, [e.write(o.outputs[0], order)], options, **fields)


def write_sum(e: Emitter, o: Operation) -> None:
    """ADD of each further operand; nothing for one."""
    names, y = [str(name) for name in o.inputs], o.outputs[0]
    order = find_common_order(e, names)
    if len(names) == 1 and names[0] not in e.listed.constants:
        e.alias(y, names[0], order)
        return
    shape, signature = (permute_shape(s, order) for s in (e.shape(y), e.signature(y)))
    dtype = _find_common_type(e, o)
    tensor = _read_operand(e, names[0], order, dtype)
    for number, name in enumerate(names[1:], 2):
        last = number == len(names)
        result = (
            e.write(y, order)
            if last
            else e.temporary(f"{y}_{number}", shape, e.dtype(y), signature=signature)
        )
        inputs = [tensor, _read_operand(e, name, order, dtype)]
        e.op("ADD", inputs, [result], "AddOptions", fusedActivationFunction=0, potScaleInt16=False)
        tensor = result


def _find_common_type(e: Emitter, o: Operation) -> np.dtype[Any] | None:
    """The type of constant operands if it has 64 bits: LiteRT does not mix it with 32 bits."""
    names = [*(name for name in o.inputs if e.constant(name) is None), *o.outputs]
    kinds = [e.dtype(str(name)) for name in names]
    return next((kind for kind in kinds if kind in _WIDE), None)


def _find_exponent_type(e: Emitter, o: Operation) -> np.dtype[Any] | None:
    """The type of a constant base or exponent, that of the other: LiteRT has no power of mixed types.

    Raises:
        UnsupportedError: A computed operand has another type, or integers are raised to a fraction.
    """
    base, exponent = (str(name) for name in o.inputs)
    kind, array = e.dtype(base), e.constant(exponent)
    if kind == e.dtype(exponent):
        return _find_common_type(e, o)
    if array is None or (kind.kind != "f" and np.any(array != np.round(array))):
        raise UnsupportedError(
            f"Pow {o.name} has a base of {kind} and an exponent of {e.dtype(exponent)}; LiteRT needs one type"
        )
    return kind


def _read_operand(e: Emitter, name: str, order: Order, dtype: np.dtype[Any] | None) -> int:
    """An operand of a broadcast. A constant gets the type, unless it is a condition.

    In ONNX's own order LiteRT broadcasts as ONNX does: an operand with fewer axes keeps their number.
    """
    if e.dtype(name).kind == "b":
        dtype = None
    rank = e.rank(name)
    if rank == 0 or (len(order) > 2 and order == order_naturally(len(order))):
        return e.read(name, order_naturally(rank), dtype=dtype)
    return e.read(name, order, rank=len(order), dtype=dtype)


def write_extremes(e: Emitter, o: Operation) -> None:
    """MAXIMUM or MINIMUM of two operands, one after the other."""
    builtin = "MAXIMUM" if o.op == "Max" else "MINIMUM"
    names, y = [str(name) for name in o.inputs], o.outputs[0]
    order = find_common_order(e, names)
    shape, signature = (permute_shape(s, order) for s in (e.shape(y), e.signature(y)))
    dtype = _find_common_type(e, o)
    tensor, *others = (_read_operand(e, name, order, dtype) for name in names)
    for number, other in enumerate(others, 2):
        last = number == len(names)
        result = (
            e.write(y, order)
            if last
            else e.temporary(f"{y}_{number}", shape, e.dtype(y), e.params(y), signature=signature)
        )
        e.op(builtin, [tensor, other], [result], "MaximumMinimumOptions")
        tensor = result


def write_where(e: Emitter, o: Operation) -> None:
    """SELECT_V2."""
    names = [str(name) for name in o.inputs]
    order = find_common_order(e, names)
    dtype = _find_common_type(e, o)
    inputs = [_read_operand(e, name, order, dtype) for name in names]
    e.op("SELECT_V2", inputs, [e.write(o.outputs[0], order)], "SelectV2Options")


def write_quantize(e: Emitter, o: Operation) -> None:
    """QUANTIZE, from float or from integers of another scale."""
    _write_converted(e, o, "QUANTIZE", "QuantizeOptions")


def write_dequantize(e: Emitter, o: Operation) -> None:
    """DEQUANTIZE."""
    _write_converted(e, o, "DEQUANTIZE", "DequantizeOptions")


def write_cast(e: Emitter, o: Operation) -> None:
    """CAST."""
    _write_converted(e, o, "CAST", "CastOptions")


def _write_converted(e: Emitter, o: Operation, builtin: str, options: str) -> None:
    """Write an operator that changes the type of each value, in the order that its input has."""
    x, y = str(o.inputs[0]), o.outputs[0]
    order = e.order(x) or order_naturally(e.rank(x))
    e.op(builtin, [e.read(x, order)], [e.write(y, order)], options)
