"""Reductions, running sums, positions of extremes, and functions along an axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ptq.core.errors import UnsupportedError
from ptq.rewrite.tflite.emitter import Emitter
from ptq.rewrite.tflite.operations import Operation
from ptq.rewrite.tflite.orders import Order, order_naturally, permute_shape

_REDUCTIONS: Mapping[str, str] = {
    "ReduceMean": "MEAN",
    "ReduceSum": "SUM",
    "ReduceMax": "REDUCE_MAX",
    "ReduceMin": "REDUCE_MIN",
    "ReduceProd": "REDUCE_PROD",
}


@dataclass(frozen=True)
class _Reduction:
    """Where a reduction runs.

    Attributes:
        order: The stored order of the input.
        axes: The reduced axes, by their places in that order.
        target: The stored order of the output.
        keeps: Whether the reduced axes stay, with length 1.
    """

    order: Order
    axes: list[int]
    target: Order
    keeps: bool


def write_reduce_axes(e: Emitter, o: Operation) -> None:
    """MEAN, SUM, REDUCE_MAX, REDUCE_MIN or REDUCE_PROD along the stored axes."""
    at = _locate_reduction(e, o)
    source, result = e.read(str(o.inputs[0]), at.order), e.write(o.outputs[0], at.target)
    _add_reduction(e, o, _REDUCTIONS[o.op], at, source, result)


def write_norm(e: Emitter, o: Operation) -> None:
    """ReduceL1, ReduceL2 or ReduceSumSquare: ABS or MUL, then SUM, and SQRT for ReduceL2."""
    x, y = str(o.inputs[0]), o.outputs[0]
    at = _locate_reduction(e, o)
    source, pieces = e.read(x, at.order), _add_temporary(e, x, at.order, f"{y}_pieces")
    if o.op == "ReduceL1":
        e.op("ABS", [source], [pieces])
    else:
        e.op("MUL", [source, source], [pieces], "MulOptions", fusedActivationFunction=0)
    if o.op == "ReduceL2":
        total = _add_temporary(e, y, at.target, f"{y}_total")
        _add_reduction(e, o, "SUM", at, pieces, total)
        e.op("SQRT", [total], [e.write(y, at.target)])
    else:
        _add_reduction(e, o, "SUM", at, pieces, e.write(y, at.target))


def _locate_reduction(e: Emitter, o: Operation) -> _Reduction:
    x = str(o.inputs[0])
    rank = e.rank(x)
    axes = o.attrs.get("axes")
    if axes is None:
        axes = e.constant(o.inputs[1] if len(o.inputs) > 1 else None)
    if axes is None or np.size(axes) == 0:
        if o.attrs.get("noop_with_empty_axes", 0):
            raise UnsupportedError(f"{o.op} {o.name} reduces nothing; remove it")
        axes = range(rank)
    reduced = sorted({int(a) % rank for a in np.atleast_1d(axes)})
    order, keeps = e.order(x) or order_naturally(rank), bool(o.attrs.get("keepdims", 1))
    target = order if keeps else remove_from_order(order, reduced)
    return _Reduction(order, [order.index(a) for a in reduced], target, keeps)


def _add_reduction(
    e: Emitter, o: Operation, builtin: str, at: _Reduction, source: int, result: int
) -> None:
    axes = e.integers(at.axes, f"{o.outputs[0]}_axes")
    e.op(builtin, [source, axes], [result], "ReducerOptions", keepDims=at.keeps)


def _add_temporary(e: Emitter, like: str, order: Order, name: str) -> int:
    """A new tensor with the shape and type of a value in a stored order."""
    shape, signature = (permute_shape(of(like), order) for of in (e.shape, e.signature))
    return e.temporary(name, shape, e.dtype(like), signature=signature)


def write_cumulative_sum(e: Emitter, o: Operation) -> None:
    """CUMSUM along a constant axis."""
    x, y = str(o.inputs[0]), o.outputs[0]
    order = e.order(x) or order_naturally(e.rank(x))
    axis = e.constant(o.inputs[1])
    if axis is None:
        raise UnsupportedError(
            f"{o.op} {o.name}: its axis is not constant; LiteRT needs a constant"
        )
    at = np.asarray(order.index(int(axis.item()) % e.rank(x)), np.int32)
    inputs = [e.read(x, order), e.literal(at, f"{y}_axis")]
    options = {name: bool(o.attrs.get(name, 0)) for name in ("exclusive", "reverse")}
    e.op("CUMSUM", inputs, [e.write(y, order)], "CumsumOptions", **options)


def remove_from_order(order: Order, removed: list[int]) -> Order:
    """The order of what is left of a value without some axes."""
    kept = [axis for axis in order if axis not in removed]
    ranks = {axis: number for number, axis in enumerate(sorted(kept))}
    return tuple(ranks[axis] for axis in kept)


def write_arg_reduce(e: Emitter, o: Operation) -> None:
    """ARG_MAX or ARG_MIN, and a RESHAPE where the axis is kept."""
    x, y = str(o.inputs[0]), o.outputs[0]
    rank = e.rank(x)
    axis = int(o.attrs.get("axis", 0)) % rank
    if o.attrs.get("select_last_index", 0):
        raise UnsupportedError(f"{o.op} {o.name} takes the last of equal values, LiteRT the first")
    order = e.order(x) or order_naturally(rank)
    builtin, options = (
        ("ARG_MAX", "ArgMaxOptions") if o.op == "ArgMax" else ("ARG_MIN", "ArgMinOptions")
    )
    inputs = [
        e.read(x, order),
        e.literal(np.asarray(order.index(axis), np.int32), f"{y}_axis"),
    ]
    kind = e.model.number_of("TensorType", "INT64")
    if not o.attrs.get("keepdims", 1):
        result = e.write(y, remove_from_order(order, [axis]))
        e.op(builtin, inputs, [result], options, outputType=kind)
        return
    shape, signature = (
        tuple(n for a, n in zip(order, permute_shape(s, order), strict=True) if a != axis)
        for s in (e.shape(y), e.signature(y))
    )
    flat = e.temporary(f"{y}_flat", shape, e.dtype(y), signature=signature)
    e.op(builtin, inputs, [flat], options, outputType=kind)
    e.reshape(flat, permute_shape(e.signature(y), order), e.write(y, order), y)


def write_along_last_axis(e: Emitter, o: Operation) -> None:
    """SOFTMAX, LOG_SOFTMAX or L2_NORMALIZATION: the axis is stored last."""
    x, y = str(o.inputs[0]), o.outputs[0]
    rank = e.rank(x)
    axis = int(o.attrs.get("axis", -1)) % rank
    if o.attrs.get("together"):
        raise UnsupportedError(f"{o.op} {o.name} runs over several axes; export opset 13")
    order = e.order(x) or order_naturally(rank)
    if order[-1] != axis:
        order = (*(a for a in order_naturally(rank) if a != axis), axis)
    inputs, outputs = [e.read(x, order)], [e.write(y, order)]
    if o.op == "Softmax":
        e.op("SOFTMAX", inputs, outputs, "SoftmaxOptions", beta=1.0)
    elif o.op == "LogSoftmax":
        e.op("LOG_SOFTMAX", inputs, outputs, "LogSoftmaxOptions")
    elif int(o.attrs.get("p", 2)) == 2:
        e.op("L2_NORMALIZATION", inputs, outputs, "L2NormOptions", fusedActivationFunction=0)
    else:
        raise UnsupportedError(
            f"LpNormalization {o.name} is not by the L2 norm; LiteRT has no other"
        )
