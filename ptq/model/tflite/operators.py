"""LiteRT's operators as ONNX nodes, one row each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ptq.core.errors import UnsupportedError
from ptq.model.tflite.graph_builder import GraphBuilder
from ptq.model.tflite.image_operators import (
    Row,
    get_activation,
    read_conv,
    read_conv_transpose,
    read_fully_connected,
    read_pool,
    read_regrouping,
    read_resize,
)
from ptq.model.tflite.moving_operators import (
    read_concat,
    read_gather,
    read_pad,
    read_reshape,
    read_slice,
    read_split,
    read_strided_slice,
    read_transpose,
    read_unpack,
)
from ptq.model.tflite.parsed import ParsedOperator


def _read_matmul(b: GraphBuilder, o: ParsedOperator) -> None:
    pair = []
    for number, turned in zip(o.inputs, (o.options.adjX, o.options.adjY), strict=True):
        value = b.read(number)
        if turned:
            raise UnsupportedError(f"BATCH_MATMUL transposes {b.tensor(number).name}")
        pair.append(value)
    b.write(o.outputs[0], b.add("MatMul", pair))


def _read_plain(op: str) -> Row:
    """An operator with the same operands in ONNX, and perhaps a fused activation."""

    def row(b: GraphBuilder, o: ParsedOperator) -> None:
        y = b.add(op, [b.read(i) for i in o.inputs])
        b.write(o.outputs[0], b.activate(o.outputs[0], y, get_activation(o)))

    return row


def _read_sum(op: str) -> Row:
    """ADD and SUB; LiteRT shifts integers of 16 bits where the file allows it and all scales are powers of two."""

    def row(b: GraphBuilder, o: ParsedOperator) -> None:
        tensors = [b.tensor(number) for number in (*o.inputs, *o.outputs)]
        wide = [t.params.scale for t in tensors if t.params is not None and t.dtype == np.int16]
        if len(wide) == len(tensors) and o.options.potScaleInt16:
            exponents = np.log2(np.asarray(wide, np.float64))
            if np.all(np.abs(exponents - np.rint(exponents)) < _NEAR_POWER_OF_TWO):
                raise UnsupportedError(
                    f"operator {o.builtin} (tensor {tensors[-1].name}) of the .tflite file shifts int16 "
                    "(`pot_scale_int16`), which is not read"
                )
        _read_plain(op)(b, o)

    return row


def _read_with(op: str, **attrs: Any) -> Row:
    return lambda b, o: b.write(o.outputs[0], b.add(op, [b.read(o.inputs[0])], **attrs))


def _read_clip(lo: float, hi: float) -> Row:
    """A clamp that stands alone; quantizers before it part it from one that the operator before it fuses."""

    def row(b: GraphBuilder, o: ParsedOperator) -> None:
        pair = [b.literal(np.float32(bound)) for bound in (lo, hi)]
        value = b.requantize(o.inputs[0], b.read(o.inputs[0]), "before_clamp")
        b.write(o.outputs[0], b.add("Clip", [value, *pair]))

    return row


def _read_reduce(op: str) -> Row:
    def row(b: GraphBuilder, o: ParsedOperator) -> None:
        axes = b.literal(np.atleast_1d(b.constant_of(o.inputs[1])).astype(np.int64))
        y = b.add(op, [b.read(o.inputs[0]), axes], keepdims=int(o.options.keepDims))
        b.write(o.outputs[0], y)

    return row


def _read_arg(op: str) -> Row:
    def row(b: GraphBuilder, o: ParsedOperator) -> None:
        axis = int(np.reshape(b.constant_of(o.inputs[1]), ()))
        b.write(o.outputs[0], b.add(op, [b.read(o.inputs[0])], axis=axis, keepdims=0))

    return row


def _read_cast(b: GraphBuilder, o: ParsedOperator) -> None:
    from onnx import helper

    source, y = b.tensor(o.inputs[0]), b.tensor(o.outputs[0])
    # A cast of quantized integers is one of the integers, not of the numbers they stand for.
    value = source.name if source.params is not None else b.read(o.inputs[0])
    kind = np.dtype(np.int64) if y.dtype == np.int32 else y.dtype
    b.write(o.outputs[0], b.add("Cast", [value], to=helper.np_dtype_to_tensor_dtype(kind)))


def _read_densify(b: GraphBuilder, o: ParsedOperator) -> None:
    """DENSIFY; sparse constants are dense from the beginning."""
    b.set_constant(o.outputs[0], b.constant_of(o.inputs[0]))


def _read_dequantize(b: GraphBuilder, o: ParsedOperator) -> None:
    """DEQUANTIZE; a float16 constant becomes one of float32, as weights of a Conv have to be constants."""
    source = b.tensor(o.inputs[0])
    if source.dtype == np.float16 and source.content is not None:
        b.set_constant(o.outputs[0], source.content.astype(np.float32))
    elif source.dtype == np.float16:
        b.write(o.outputs[0], b.add("Cast", [b.read(o.inputs[0])], to=1))
    else:
        b.alias(o.outputs[0], o.inputs[0])


def _read_quantize(b: GraphBuilder, o: ParsedOperator) -> None:
    value = b.read(o.inputs[0])
    if b.is_float_result(value):
        # else the operator would stand between quantizers, as one that computes on integers does; readers carry
        # quantizers through an Identity
        value = b.add("Cast", [value], to=1)
    b.write(o.outputs[0], value)


def _read_softmax(b: GraphBuilder, o: ParsedOperator) -> None:
    """SOFTMAX; ONNX has no factor beta, so a product stands before it."""
    value, beta = b.read(o.inputs[0]), np.float32(o.options.beta)
    if beta != 1:
        value = b.add("Mul", [value, b.literal(beta, "beta")])
    b.write(o.outputs[0], b.add("Softmax", [value], axis=-1))


def _read_with_constants(op: str, *options: str) -> Row:
    """Further inputs are constants of int64 in ONNX; options that are flags have ONNX's names."""

    def row(b: GraphBuilder, o: ParsedOperator) -> None:
        more = [b.literal(b.constant_of(i).astype(np.int64)) for i in o.inputs[1:]]
        attrs: dict[str, Any] = {name: int(getattr(o.options, name)) for name in options}
        b.write(o.outputs[0], b.add(op, [b.read(o.inputs[0]), *more], **attrs))

    return row


def _read_leaky_relu(b: GraphBuilder, o: ParsedOperator) -> None:
    b.write(o.outputs[0], b.add("LeakyRelu", [b.read(o.inputs[0])], alpha=o.options.alpha))


def _read_gelu(b: GraphBuilder, o: ParsedOperator) -> None:
    how = "tanh" if o.options.approximate else "none"
    b.write(o.outputs[0], b.add("Gelu", [b.read(o.inputs[0])], approximate=how))


def _read_rsqrt(b: GraphBuilder, o: ParsedOperator) -> None:
    b.write(o.outputs[0], b.add("Reciprocal", [b.add("Sqrt", [b.read(o.inputs[0])])]))


def _read_square(b: GraphBuilder, o: ParsedOperator) -> None:
    b.write(o.outputs[0], b.add("Mul", [b.read(o.inputs[0])] * 2))


def _read_not_equal(b: GraphBuilder, o: ParsedOperator) -> None:
    b.write(o.outputs[0], b.add("Not", [b.add("Equal", [b.read(i) for i in o.inputs])]))


def _read_select(b: GraphBuilder, o: ParsedOperator) -> None:
    which, *values = o.inputs
    condition, one, other = (b.tensor(i).signature for i in o.inputs)
    if one != other or condition not in ((), one[:1], one):
        name = b.tensor(o.outputs[0]).name
        raise UnsupportedError(f"SELECT of {name} by a condition of another shape is not read")
    chosen = b.read(which)
    if len(condition) < len(one) and condition:  # one element for each row
        chosen = b.reshape(which, chosen, [-1] + [1] * (len(one) - 1))
    b.write(o.outputs[0], b.add("Where", [chosen, *map(b.read, values)]))


def _read_squared_difference(b: GraphBuilder, o: ParsedOperator) -> None:
    difference = b.add("Sub", [b.read(i) for i in o.inputs])
    b.write(o.outputs[0], b.add("Mul", [difference, difference]))


_NEAR_POWER_OF_TWO = 1e-3
"""Distance of log2 within which LiteRT takes a scale for a power of two."""
_SAME = {
    "ABS": "Abs", "CEIL": "Ceil", "COS": "Cos", "DIV": "Div", "ELU": "Elu", "EQUAL": "Equal",
    "EXP": "Exp", "FLOOR": "Floor", "GREATER": "Greater", "GREATER_EQUAL": "GreaterOrEqual",
    "HARD_SWISH": "HardSwish", "LESS": "Less", "LESS_EQUAL": "LessOrEqual", "LOG": "Log",
    "LOGICAL_AND": "And", "LOGICAL_NOT": "Not", "LOGICAL_OR": "Or", "LOGISTIC": "Sigmoid",
    "MAXIMUM": "Max", "MINIMUM": "Min", "MUL": "Mul", "NEG": "Neg", "POW": "Pow", "PRELU": "PRelu",
    "RELU": "Relu", "ROUND": "Round", "SELECT_V2": "Where", "SIGN": "Sign", "SIN": "Sin", "SQRT": "Sqrt",
    "TANH": "Tanh",
}  # fmt: skip

ROWS: Mapping[str, Row] = {
    **{builtin: _read_plain(op) for builtin, op in _SAME.items()},
    "ADD": _read_sum("Add"),
    "ARG_MAX": _read_arg("ArgMax"),
    "ARG_MIN": _read_arg("ArgMin"),
    "AVERAGE_POOL_2D": read_pool("AveragePool"),
    "BATCH_MATMUL": _read_matmul,
    "BROADCAST_TO": _read_with_constants("Expand"),
    "CAST": _read_cast,
    "CONCATENATION": read_concat,
    "CONV_2D": read_conv,
    "CUMSUM": _read_with_constants("CumSum", "exclusive", "reverse"),
    "DEPTHWISE_CONV_2D": read_conv,
    "DEPTH_TO_SPACE": read_regrouping("DepthToSpace"),
    "DENSIFY": _read_densify,
    "DEQUANTIZE": _read_dequantize,
    "FULLY_CONNECTED": read_fully_connected,
    "GATHER": read_gather,
    "GELU": _read_gelu,
    "L2_NORMALIZATION": _read_with("LpNormalization", axis=-1, p=2),
    "LEAKY_RELU": _read_leaky_relu,
    "LOG_SOFTMAX": _read_with("LogSoftmax", axis=-1),
    "MAX_POOL_2D": read_pool("MaxPool"),
    "MEAN": _read_reduce("ReduceMean"),
    "MIRROR_PAD": read_pad,
    "NOT_EQUAL": _read_not_equal,
    "PAD": read_pad,
    "PADV2": read_pad,
    "QUANTIZE": _read_quantize,
    "REDUCE_MAX": _read_reduce("ReduceMax"),
    "REDUCE_MIN": _read_reduce("ReduceMin"),
    "REDUCE_PROD": _read_reduce("ReduceProd"),
    "RELU6": _read_clip(0.0, 6.0),
    "RELU_N1_TO_1": _read_clip(-1.0, 1.0),
    "RESHAPE": read_reshape,
    "RESIZE_BILINEAR": read_resize,
    "RESIZE_NEAREST_NEIGHBOR": read_resize,
    "RSQRT": _read_rsqrt,
    "SELECT": _read_select,
    "SLICE": read_slice,
    "SOFTMAX": _read_softmax,
    "SPACE_TO_DEPTH": read_regrouping("SpaceToDepth"),
    "SPLIT": read_split,
    "SPLIT_V": read_split,
    "SQUARED_DIFFERENCE": _read_squared_difference,
    "SQUARE": _read_square,
    "STRIDED_SLICE": read_strided_slice,
    "SUB": _read_sum("Sub"),
    "SUM": _read_reduce("ReduceSum"),
    "TILE": _read_with_constants("Tile"),
    "TRANSPOSE": read_transpose,
    "TRANSPOSE_CONV": read_conv_transpose,
    "UNPACK": read_unpack,
}
"""Rows by the name of the builtin operator."""
