"""Operator table: one row for each ONNX operator that can be quantized.

The solver reads the rows, the rewriters write their QLinear forms, the executor reads their layout, and ``ptq ops``
and docs/ops.md are printed from them. A new operator is one row here. It needs a function in ``ptq/kernels`` and
``ptq/executor/arithmetics`` only if its arithmetic is new.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ptq.core.opspec import (
    AS_LOOKUP_TABLE,
    MICROSOFT_PREFIX,
    RUNS_ON_INTEGERS,
    FixedQParams,
    Layout,
    OpSpec,
    OutputRule,
    QLinearForm,
    Role,
)


def _build_table(*rows: OpSpec) -> Mapping[str, OpSpec]:
    table = {row.op: row for row in rows}
    if len(table) != len(rows):
        raise ValueError("two rows for one operator")
    return table


_X, _W, _B, _V, _K = Role.ACTIVATION, Role.WEIGHT, Role.BIAS, Role.VALUE, Role.KEEP
LINEAR_OPS = frozenset(["Conv", "ConvTranspose", "Gemm", "MatMul"])
"""Sums of products of inputs and weights."""
_MS = MICROSOFT_PREFIX


def _make_linear(op: str, roles: tuple[Role, ...], layout: Layout, **more: object) -> OpSpec:
    return OpSpec(op, roles, OutputRule.OBSERVED, layout, can_fuse_activation=True, **more)  # type: ignore[arg-type]


def _make_data_movement(
    op: str, litert: str | None, layout: Layout = Layout.FIRST, n: int = 0
) -> OpSpec:
    return OpSpec(
        op,
        (_X, *(_K,) * n),
        OutputRule.SAME_AS_INPUT,
        layout,
        qlinear=RUNS_ON_INTEGERS,
        litert=litert,
        same_scale=True,
    )


def _make_unary(
    op: str, litert: str | None = None, values: int = 0, qlinear: QLinearForm | None = None
) -> OpSpec:
    roles = (_X, *(_V,) * values)
    return OpSpec(
        op,
        roles,
        OutputRule.OBSERVED,
        Layout.FOLLOWS,
        qlinear=qlinear,
        litert=litert,
        is_unary_function=True,
    )


def _clamp(op: str, litert: str, values: int = 0) -> OpSpec:
    row = _make_unary(op, litert, values, qlinear=AS_LOOKUP_TABLE)
    return replace(row, is_activation=True)


def _make_one_scale(op: str, litert: str, qlinear: QLinearForm | None = None) -> OpSpec:
    return OpSpec(
        op,
        (_X,),
        OutputRule.ONE_GROUP,
        Layout.FOLLOWS,
        qlinear=qlinear,
        litert=litert,
        same_scale=True,
        variadic=True,
    )


def _make_normalization(op: str) -> OpSpec:
    roles, rule = (_X, _V, _V), OutputRule.OBSERVED
    return OpSpec(op, roles, rule, Layout.FIRST, ptq_kernel=True, litert_in_float=True)


def _make_comparison(op: str, litert: str) -> OpSpec:
    return OpSpec(op, (_X, _X), OutputRule.NONE, Layout.FOLLOWS, litert=litert)


SPATIAL, FOLLOWS, FIRST = Layout.SPATIAL, Layout.FOLLOWS, Layout.FIRST

OPS: Mapping[str, OpSpec] = _build_table(
    _make_linear(
        "Conv",
        (_X, _W, _B),
        SPATIAL,
        qlinear=QLinearForm("QLinearConv", "0 1 y 2="),
        litert="CONV_2D",
    ),
    _make_linear("ConvTranspose", (_X, _W, _B), SPATIAL, litert="TRANSPOSE_CONV"),
    _make_linear(
        "Gemm",
        (_X, _W, _B),
        FIRST,
        qlinear=QLinearForm(_MS + "QGemm", "0 1 2= y"),
        float_output_form=QLinearForm(_MS + "QGemm", "0 1 2="),
        litert="FULLY_CONNECTED",
    ),
    _make_linear(
        "MatMul",
        (_X, _W),
        FIRST,
        two_activations=True,
        qlinear=QLinearForm("QLinearMatMul", "0 1 y"),
        float_output_form=QLinearForm(_MS + "MatMulIntegerToFloat", "0q 1q 0s 1s 0z 1z"),
        litert="BATCH_MATMUL",
    ),
    _make_linear(
        "Add", (_X, _X), FOLLOWS, qlinear=QLinearForm(_MS + "QLinearAdd", "0 1 y"), litert="ADD"
    ),
    _make_linear("Sub", (_X, _X), FOLLOWS, litert="SUB"),
    OpSpec("Div", (_X, _X), OutputRule.OBSERVED, FOLLOWS, litert="DIV"),
    _make_linear(
        "Mul", (_X, _X), FOLLOWS, qlinear=QLinearForm(_MS + "QLinearMul", "0 1 y"), litert="MUL"
    ),
    _clamp("Relu", "RELU"),
    _clamp("Clip", "RELU6", values=2),
    OpSpec(
        "LeakyRelu",
        (_X,),
        OutputRule.OBSERVED,
        FOLLOWS,
        qlinear=QLinearForm(_MS + "QLinearLeakyRelu", "0 y"),
        litert="LEAKY_RELU",
        can_fuse_activation=True,
        is_unary_function=True,
    ),
    OpSpec(
        "Sigmoid",
        (_X,),
        OutputRule.OBSERVED,
        FOLLOWS,
        qlinear=QLinearForm(_MS + "QLinearSigmoid", "0 y"),
        litert="LOGISTIC",
        fixed_output=FixedQParams(1 / 256, -128),
        is_unary_function=True,
    ),
    OpSpec(
        "Tanh",
        (_X,),
        OutputRule.OBSERVED,
        FOLLOWS,
        litert="TANH",
        fixed_output=FixedQParams(1 / 128, 0),
        is_unary_function=True,
    ),
    _make_unary("Abs", "ABS"),
    _make_unary("Ceil"),
    _make_unary("Celu"),
    _make_unary("Cos"),
    _make_unary("Elu", "ELU"),
    _make_unary("Erf"),
    _make_unary("Exp", "EXP"),
    _make_unary("Floor"),
    _make_unary("Gelu", "GELU"),
    _make_unary("HardSigmoid", qlinear=AS_LOOKUP_TABLE),
    _make_unary("HardSwish", "HARD_SWISH", qlinear=AS_LOOKUP_TABLE),
    _make_unary("Log", "LOG"),
    _make_unary("Mish"),
    _make_unary("Neg"),
    _make_unary("Pow", values=1),
    _make_unary("Reciprocal"),
    _make_unary("Round"),
    _make_unary("Selu"),
    _make_unary("Sign"),
    _make_unary("Sin"),
    _make_unary("Softplus"),
    _make_unary("Softsign"),
    _make_unary("Sqrt", "SQRT"),
    _make_unary("ThresholdedRelu"),
    OpSpec("PRelu", (_X, _X), OutputRule.OBSERVED, FOLLOWS, litert="PRELU"),
    OpSpec(
        "Softmax",
        (_X,),
        OutputRule.OBSERVED,
        FIRST,
        qlinear=QLinearForm(_MS + "QLinearSoftmax", "0 y"),
        litert="SOFTMAX",
        fixed_output=FixedQParams(1 / 256, -128),
    ),
    OpSpec(
        "AveragePool",
        (_X,),
        OutputRule.OBSERVED,
        SPATIAL,
        qlinear=QLinearForm(_MS + "QLinearAveragePool", "0 y"),
        litert="AVERAGE_POOL_2D",
        same_scale=True,
    ),
    OpSpec(
        "GlobalAveragePool",
        (_X,),
        OutputRule.OBSERVED,
        SPATIAL,
        qlinear=QLinearForm(_MS + "QLinearGlobalAveragePool", "0 y", {"channels_last": 0}),
        litert="MEAN",
    ),
    _make_normalization("LayerNormalization"),
    _make_normalization("InstanceNormalization"),
    OpSpec("ReduceMean", (_X, _K), OutputRule.OBSERVED, FIRST, litert="MEAN"),
    _make_one_scale("Concat", "CONCATENATION", QLinearForm(_MS + "QLinearConcat", "y *")),
    OpSpec(
        "Pad",
        (_X, _K, _V, _K),
        OutputRule.SAME_AS_INPUT,
        FOLLOWS,
        qlinear=RUNS_ON_INTEGERS,
        litert="PAD",
        same_scale=True,
    ),
    _make_data_movement("MaxPool", "MAX_POOL_2D", SPATIAL),
    _make_data_movement("Reshape", "RESHAPE", n=1),
    _make_data_movement("Flatten", "RESHAPE"),
    _make_data_movement("Squeeze", "SQUEEZE", n=1),
    _make_data_movement("Unsqueeze", "RESHAPE", n=1),
    _make_data_movement("Transpose", "TRANSPOSE"),
    _make_data_movement("Gather", "GATHER", n=1),
    _make_data_movement("Slice", "SLICE", n=4),
    _make_data_movement("Expand", "BROADCAST_TO", n=1),
    _make_data_movement("Tile", "TILE", n=1),
    _make_data_movement("Split", "SPLIT", FOLLOWS, n=1),
    _make_data_movement("DepthToSpace", "DEPTH_TO_SPACE", SPATIAL),
    _make_data_movement("SpaceToDepth", "SPACE_TO_DEPTH", SPATIAL),
    _make_data_movement("Identity", None, FOLLOWS),
    _make_data_movement("ReduceMax", "REDUCE_MAX", n=1),
    replace(_make_data_movement("GlobalMaxPool", "REDUCE_MAX", SPATIAL), qlinear=None),
    _make_data_movement("ReduceMin", "REDUCE_MIN", n=1),
    _make_data_movement("Resize nearest", "RESIZE_NEAREST_NEIGHBOR", SPATIAL, n=3),
    # With equal scales ONNX Runtime has an integer kernel for nearest neighbours, not for interpolation.
    replace(_make_data_movement("Resize linear", "RESIZE_BILINEAR", SPATIAL, n=3), qlinear=None),
    _make_one_scale("Max", "MAXIMUM"),
    _make_one_scale("Min", "MINIMUM"),
    OpSpec(
        "Where",
        (_K, _X, _X),
        OutputRule.ONE_GROUP,
        FIRST,
        qlinear=QLinearForm(_MS + "QLinearWhere", "0= 1 2 y"),
        litert="SELECT_V2",
        same_scale=True,
    ),
    OpSpec(
        "LogSoftmax",
        (_X,),
        OutputRule.OBSERVED,
        FIRST,
        litert="LOG_SOFTMAX",
        fixed_output=FixedQParams(16 / 256, 127),
    ),
    OpSpec(
        "LpNormalization",
        (_X,),
        OutputRule.OBSERVED,
        FOLLOWS,
        litert="L2_NORMALIZATION",
        fixed_output=FixedQParams(1 / 128, 0),
    ),
    OpSpec("ReduceSum", (_X, _K), OutputRule.OBSERVED, FIRST, litert="SUM", litert_in_float=True),
    OpSpec("ArgMax", (_X,), OutputRule.NONE, FIRST, qlinear=RUNS_ON_INTEGERS, litert="ARG_MAX"),
    OpSpec("ArgMin", (_X,), OutputRule.NONE, FIRST, litert="ARG_MIN"),
    _make_comparison("Equal", "EQUAL"),
    _make_comparison("Greater", "GREATER"),
    _make_comparison("GreaterOrEqual", "GREATER_EQUAL"),
    _make_comparison("Less", "LESS"),
    _make_comparison("LessOrEqual", "LESS_EQUAL"),
    OpSpec("Shape", (_X,), OutputRule.NONE, FIRST, qlinear=RUNS_ON_INTEGERS, litert="SHAPE"),
)

QLINEAR_FORMS: Mapping[str, tuple[OpSpec, QLinearForm]] = {
    form.op: (spec, form)
    for spec in OPS.values()
    for form in (spec.float_output_form, spec.qlinear)
    if form is not None and form.op
}
"""Rows by the name of their QLinear operator, with that form; for QGemm the form with an output scale."""

UNARY = frozenset(row.op for row in OPS.values() if row.is_unary_function)
"""Functions of one value: a table of 256 entries for 8 bits."""

ELEMENTWISE = frozenset(["Add", "Div", "Max", "Mean", "Min", "Mul", "Sub", "Sum"])
"""Elementwise functions of several operands; functions of one value if the other operands are scalar constants."""
