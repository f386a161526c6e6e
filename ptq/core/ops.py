"""The table: what ptq knows of each ONNX operator, one row each.

The solver reads rows, the rewriters write their QLinear forms, the executor asks them for a layout, and
``ptq ops`` and docs/ops.md are printed from them. A new operator is one row here, and a function in
``ptq/kernels`` and ``ptq/arithmetics`` only where its arithmetic is new.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ptq.core.opspec import PASSES, TABLE, Fixed, Layout, OpSpec, Output, QLinear, Role


def _table(*rows: OpSpec) -> Mapping[str, OpSpec]:
    table = {row.op: row for row in rows}
    if len(table) != len(rows):
        raise ValueError("two rows for one operator")
    return table


_X, _W, _B, _V, _K = Role.ACTIVATION, Role.WEIGHT, Role.BIAS, Role.VALUE, Role.KEEP
_MS = "com.microsoft::"


def _linear(op: str, roles: tuple[Role, ...], layout: Layout, **more: object) -> OpSpec:
    return OpSpec(op, roles, Output.OBSERVED, layout, absorbs=True, **more)  # type: ignore[arg-type]


def _move(op: str, litert: str | None, layout: Layout = Layout.FIRST, n: int = 0) -> OpSpec:
    return OpSpec(
        op,
        (_X, *(_K,) * n),
        Output.SAME_AS_INPUT,
        layout,
        qlinear=PASSES,
        litert=litert,
        same_scale=True,
    )


def _function(
    op: str, litert: str | None = None, values: int = 0, qlinear: QLinear | None = None
) -> OpSpec:
    roles = (_X, *(_V,) * values)
    return OpSpec(
        op, roles, Output.OBSERVED, Layout.FOLLOWS, qlinear=qlinear, litert=litert, function=True
    )


def _join(op: str, litert: str, qlinear: QLinear | None = None) -> OpSpec:
    return OpSpec(
        op,
        (_X,),
        Output.ONE_GROUP,
        Layout.FOLLOWS,
        qlinear=qlinear,
        litert=litert,
        same_scale=True,
        variadic=True,
    )


def _comparison(op: str, litert: str) -> OpSpec:
    return OpSpec(op, (_X, _X), Output.NONE, Layout.FOLLOWS, litert=litert)


SPATIAL, FOLLOWS, FIRST = Layout.SPATIAL, Layout.FOLLOWS, Layout.FIRST

OPS: Mapping[str, OpSpec] = _table(
    _linear(
        "Conv", (_X, _W, _B), SPATIAL, qlinear=QLinear("QLinearConv", "0 1 y 2="), litert="CONV_2D"
    ),
    _linear("ConvTranspose", (_X, _W, _B), SPATIAL, litert="TRANSPOSE_CONV"),
    _linear(
        "Gemm",
        (_X, _W, _B),
        FIRST,
        qlinear=QLinear(_MS + "QGemm", "0 1 2= y"),
        real=QLinear(_MS + "QGemm", "0 1 2="),
        litert="FULLY_CONNECTED",
    ),
    _linear(
        "MatMul",
        (_X, _W),
        FIRST,
        two_activations=True,
        qlinear=QLinear("QLinearMatMul", "0 1 y"),
        real=QLinear(_MS + "MatMulIntegerToFloat", "0q 1q 0s 1s 0z 1z"),
        litert="BATCH_MATMUL",
    ),
    _linear("Add", (_X, _X), FOLLOWS, qlinear=QLinear(_MS + "QLinearAdd", "0 1 y"), litert="ADD"),
    _linear("Sub", (_X, _X), FOLLOWS, litert="SUB"),
    OpSpec("Div", (_X, _X), Output.OBSERVED, FOLLOWS, litert="DIV"),
    _linear("Mul", (_X, _X), FOLLOWS, qlinear=QLinear(_MS + "QLinearMul", "0 1 y"), litert="MUL"),
    OpSpec(
        "Relu",
        (_X,),
        Output.OBSERVED,
        FOLLOWS,
        qlinear=TABLE,
        litert="RELU",
        activation=True,
        function=True,
    ),
    OpSpec(
        "Clip",
        (_X, _V, _V),
        Output.OBSERVED,
        FOLLOWS,
        qlinear=TABLE,
        litert="RELU6",
        activation=True,
        function=True,
    ),
    OpSpec(
        "LeakyRelu",
        (_X,),
        Output.OBSERVED,
        FOLLOWS,
        qlinear=QLinear(_MS + "QLinearLeakyRelu", "0 y"),
        litert="LEAKY_RELU",
        absorbs=True,
        function=True,
    ),
    OpSpec(
        "Sigmoid",
        (_X,),
        Output.OBSERVED,
        FOLLOWS,
        qlinear=QLinear(_MS + "QLinearSigmoid", "0 y"),
        litert="LOGISTIC",
        fixed=Fixed(1 / 256, -128),
        function=True,
    ),
    OpSpec(
        "Tanh",
        (_X,),
        Output.OBSERVED,
        FOLLOWS,
        litert="TANH",
        fixed=Fixed(1 / 128, 0),
        function=True,
    ),
    _function("Abs", "ABS"),
    _function("Ceil"),
    _function("Celu"),
    _function("Cos"),
    _function("Elu", "ELU"),
    _function("Erf"),
    _function("Exp", "EXP"),
    _function("Floor"),
    _function("Gelu", "GELU"),
    _function("HardSigmoid", qlinear=TABLE),
    _function("HardSwish", "HARD_SWISH", qlinear=TABLE),
    _function("Log", "LOG"),
    _function("Mish"),
    _function("Neg"),
    _function("Pow", values=1),
    _function("Reciprocal"),
    _function("Round"),
    _function("Selu"),
    _function("Sign"),
    _function("Sin"),
    _function("Softplus"),
    _function("Softsign"),
    _function("Sqrt", "SQRT"),
    _function("ThresholdedRelu"),
    OpSpec("PRelu", (_X, _X), Output.OBSERVED, FOLLOWS, litert="PRELU"),
    OpSpec(
        "Softmax",
        (_X,),
        Output.OBSERVED,
        FIRST,
        qlinear=QLinear(_MS + "QLinearSoftmax", "0 y"),
        litert="SOFTMAX",
        fixed=Fixed(1 / 256, -128),
    ),
    OpSpec(
        "AveragePool",
        (_X,),
        Output.OBSERVED,
        SPATIAL,
        qlinear=QLinear(_MS + "QLinearAveragePool", "0 y"),
        litert="AVERAGE_POOL_2D",
        same_scale=True,
    ),
    OpSpec(
        "GlobalAveragePool",
        (_X,),
        Output.OBSERVED,
        SPATIAL,
        qlinear=QLinear(_MS + "QLinearGlobalAveragePool", "0 y", {"channels_last": 0}),
        litert="MEAN",
    ),
    OpSpec("LayerNormalization", (_X, _V, _V), Output.OBSERVED, FIRST, own=True),
    OpSpec("InstanceNormalization", (_X, _V, _V), Output.OBSERVED, FIRST, own=True),
    OpSpec("ReduceMean", (_X, _K), Output.OBSERVED, FIRST, litert="MEAN"),
    _join("Concat", "CONCATENATION", QLinear(_MS + "QLinearConcat", "y *")),
    OpSpec(
        "Pad",
        (_X, _K, _V, _K),
        Output.SAME_AS_INPUT,
        FOLLOWS,
        qlinear=PASSES,
        litert="PAD",
        same_scale=True,
    ),
    _move("MaxPool", "MAX_POOL_2D", SPATIAL),
    _move("Reshape", "RESHAPE", n=1),
    _move("Flatten", "RESHAPE"),
    _move("Squeeze", "SQUEEZE", n=1),
    _move("Unsqueeze", "RESHAPE", n=1),
    _move("Transpose", "TRANSPOSE"),
    _move("Gather", "GATHER", n=1),
    _move("Slice", "SLICE", n=4),
    _move("Expand", "BROADCAST_TO", n=1),
    _move("Tile", "TILE", n=1),
    _move("Split", "SPLIT", FOLLOWS, n=1),
    _move("DepthToSpace", "DEPTH_TO_SPACE", SPATIAL),
    _move("SpaceToDepth", "SPACE_TO_DEPTH", SPATIAL),
    _move("Identity", None, FOLLOWS),
    _move("ReduceMax", "REDUCE_MAX", n=1),
    replace(_move("GlobalMaxPool", "REDUCE_MAX", SPATIAL), qlinear=None),
    _move("ReduceMin", "REDUCE_MIN", n=1),
    _move("Resize nearest", "RESIZE_NEAREST_NEIGHBOR", SPATIAL, n=3),
    # where scales are the same ONNX Runtime has a kernel for nearest neighbours, not for interpolation
    replace(_move("Resize linear", "RESIZE_BILINEAR", SPATIAL, n=3), qlinear=None),
    _join("Max", "MAXIMUM"),
    _join("Min", "MINIMUM"),
    OpSpec(
        "Where",
        (_K, _X, _X),
        Output.ONE_GROUP,
        FIRST,
        qlinear=QLinear(_MS + "QLinearWhere", "0= 1 2 y"),
        litert="SELECT_V2",
        same_scale=True,
    ),
    OpSpec(
        "LogSoftmax",
        (_X,),
        Output.OBSERVED,
        FIRST,
        litert="LOG_SOFTMAX",
        fixed=Fixed(16 / 256, 127),
    ),
    OpSpec(
        "LpNormalization",
        (_X,),
        Output.OBSERVED,
        FOLLOWS,
        litert="L2_NORMALIZATION",
        fixed=Fixed(1 / 128, 0),
    ),
    OpSpec("ReduceSum", (_X, _K), Output.OBSERVED, FIRST, litert="SUM"),
    OpSpec("ArgMax", (_X,), Output.NONE, FIRST, qlinear=PASSES, litert="ARG_MAX"),
    OpSpec("ArgMin", (_X,), Output.NONE, FIRST, litert="ARG_MIN"),
    _comparison("Equal", "EQUAL"),
    _comparison("Greater", "GREATER"),
    _comparison("GreaterOrEqual", "GREATER_EQUAL"),
    _comparison("Less", "LESS"),
    _comparison("LessOrEqual", "LESS_EQUAL"),
    OpSpec("Shape", (_X,), Output.NONE, FIRST, qlinear=PASSES, litert="SHAPE"),
)

QLINEAR_FORMS: Mapping[str, tuple[OpSpec, QLinear]] = {
    form.op: (spec, form)
    for spec in OPS.values()
    for form in (spec.real, spec.qlinear)
    if form is not None and form.op
}
"""The rows by the names of their QLinear operators, with the form of that name: QGemm's with its output's scale."""

UNARY = frozenset(row.op for row in OPS.values() if row.function)
"""Functions of one value: on 8 bits, a table of 256 entries."""

ELEMENTWISE = frozenset(["Add", "Div", "Max", "Mean", "Min", "Mul", "Sub", "Sum"])
"""Functions of several values, element by element: of one value where the others are constants of one element."""
