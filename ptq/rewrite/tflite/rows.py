"""The operator table of the writer: for each ONNX operator, what writes it on integers and in float."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ptq.core.ops import UNARY
from ptq.model.node import RESHAPE_OPS
from ptq.rewrite.tflite import (
    rows_composed,
    rows_elementwise,
    rows_functions,
    rows_linear,
    rows_reductions,
    rows_views,
    rows_window,
)
from ptq.rewrite.tflite.emitter import Emitter
from ptq.rewrite.tflite.operations import Operation

Writer = Callable[[Emitter, Operation], None]


@dataclass(frozen=True)
class Row:
    """One ONNX operator.

    Attributes:
        integer: What writes it on integers; None if LiteRT has no such operator.
        real: What writes it in float; None if LiteRT has no such operator.
    """

    integer: Writer | None
    real: Writer | None


def _make_common_row(writer: Writer) -> Row:
    return Row(writer, writer)


def _make_float_row(writer: Writer) -> Row:
    return Row(None, writer)


_TABLES = {op: Row(rows_functions.write_function, None) for op in UNARY}
_FUNCTIONS = {
    op: Row(rows_functions.write_function if op in UNARY else None, rows_functions.write_function)
    for op in rows_functions.FLOAT_BUILTINS
}
_ANY_ORDER: Mapping[str, Writer] = {
    "ArgMax": rows_reductions.write_arg_reduce,
    "ArgMin": rows_reductions.write_arg_reduce,
    "Clip": rows_functions.write_clip,
    "Concat": rows_views.write_concat,
    "Expand": rows_views.write_expand,
    "Gather": rows_views.write_gather,
    "Gelu": rows_functions.write_gelu,
    "Identity": rows_views.write_identity,
    "LeakyRelu": rows_functions.write_leaky_relu,
    "LogSoftmax": rows_reductions.write_along_last_axis,
    "LpNormalization": rows_reductions.write_along_last_axis,
    "Max": rows_elementwise.write_extremes,
    "Min": rows_elementwise.write_extremes,
    "PRelu": rows_functions.write_prelu,
    "Pad": rows_window.write_pad,
    "ReduceMax": rows_reductions.write_reduce_axes,
    "ReduceMean": rows_reductions.write_reduce_axes,
    "ReduceMin": rows_reductions.write_reduce_axes,
    "Slice": rows_views.write_slice_axes,
    "Softmax": rows_reductions.write_along_last_axis,
    "Split": rows_views.write_split,
    "Tile": rows_views.write_tile,
    "Where": rows_elementwise.write_where,
    **dict.fromkeys(
        ("Add", "Sub", "Mul", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
        rows_elementwise.write_binary,
    ),
}
_SPATIAL: Mapping[str, Writer] = {
    "AveragePool": rows_window.write_pool,
    "Conv": rows_linear.write_conv,
    "ConvTranspose": rows_linear.write_conv_transpose,
    "DepthToSpace": rows_window.write_depth_to_space,
    "GlobalAveragePool": rows_window.write_global_pool,
    "GlobalMaxPool": rows_window.write_global_pool,
    "MaxPool": rows_window.write_pool,
    "Resize linear": rows_window.write_resize,
    "Resize nearest": rows_window.write_resize,
    "SpaceToDepth": rows_window.write_space_to_depth,
}
_COMPOSED: Mapping[str, Writer] = {
    "Ceil": rows_composed.write_ceil,
    "Celu": rows_composed.write_exponential_unit,
    "Elu": rows_composed.write_exponential_unit,
    "HardSigmoid": rows_composed.write_hard_sigmoid,
    "Mish": rows_composed.write_mish,
    "Reciprocal": rows_composed.write_reciprocal,
    "Selu": rows_composed.write_exponential_unit,
    "Softplus": rows_composed.write_softplus,
    "Softsign": rows_composed.write_softsign,
}
"""Tables on integers that are several operators in float."""

ROWS: Mapping[str, Row] = {
    **_TABLES,
    **_FUNCTIONS,
    **{op: _make_common_row(writer) for op, writer in _ANY_ORDER.items()},
    **{op: _make_common_row(writer) for op, writer in _SPATIAL.items()},
    **{op: Row(rows_functions.write_table, writer) for op, writer in _COMPOSED.items()},
    **{op: _make_common_row(rows_views.write_view) for op in RESHAPE_OPS},
    "And": _make_float_row(rows_elementwise.write_binary),
    "BatchNormalization": _make_float_row(rows_composed.write_batch_normalization),
    "Cast": _make_float_row(rows_elementwise.write_cast),
    "CumSum": _make_float_row(rows_reductions.write_cumulative_sum),
    "DequantizeLinear": _make_common_row(rows_elementwise.write_dequantize),
    "Gemm": _make_common_row(rows_linear.write_gemm),
    "InstanceNormalization": _make_float_row(rows_composed.write_instance_normalization),
    "LayerNormalization": _make_float_row(rows_composed.write_layer_normalization),
    "MatMul": _make_common_row(rows_linear.write_matmul),
    "Or": _make_float_row(rows_elementwise.write_binary),
    "Pow": Row(rows_functions.write_table, rows_elementwise.write_binary),
    "QuantizeLinear": _make_common_row(rows_elementwise.write_quantize),
    "ReduceL1": _make_float_row(rows_reductions.write_norm),
    "ReduceL2": _make_float_row(rows_reductions.write_norm),
    "ReduceProd": _make_float_row(rows_reductions.write_reduce_axes),
    # LiteRT's reference kernel reads int8 as uint8 here.
    "ReduceSum": _make_float_row(rows_reductions.write_reduce_axes),
    "ReduceSumSquare": _make_float_row(rows_reductions.write_norm),
    "Requantize": _make_common_row(rows_elementwise.write_quantize),
    "Sum": _make_float_row(rows_elementwise.write_sum),
    "Transpose": _make_common_row(rows_views.write_transpose),
}
"""Rows by the name of the ONNX operator; a Resize by its mode."""
