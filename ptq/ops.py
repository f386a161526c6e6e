"""The table: what ptq knows of each ONNX operator, one row each.

The solver reads rows, the rewriters write their QLinear forms, the executor asks them for a layout, and
``ptq ops`` and docs/ops.md are printed from them. A new operator is one row here, and a function in
``ptq/kernels`` and ``ptq/arithmetics`` only where its arithmetic is new.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Role(Enum):
    """What an input is to the quantizer."""

    ACTIVATION = "activation"  # quantized per tensor; a constant one by its own extremes
    WEIGHT = "weight"  # constant, symmetric, per output channel
    BIAS = "bias"  # constant int32 with scale input × weight
    VALUE = "value"  # a constant in the units of the first input: a pad value, a clamp's bound
    KEEP = "keep"  # left alone: indices, shapes, axes


class Output(Enum):
    """Where an output's scale and zero point come from."""

    OBSERVED = "observed"
    SAME_AS_INPUT = "same as the input"
    ONE_GROUP = "one with all inputs"
    NONE = "not quantized"


class Layout(Enum):
    """How an operator meets channels-last arrays in the executor."""

    SPATIAL = "channels last"  # its kernel wants N, spatial…, C
    FOLLOWS = "either"  # any layout, its axes renamed
    FIRST = "as ONNX has it"


@dataclass(frozen=True)
class Fixed:
    """Scale and zero point that a specification prescribes, the zero point as int8 counts it."""

    scale: float
    zero_point: int


@dataclass(frozen=True)
class QLinear:
    """ONNX Runtime's integer operator and the order of its inputs.

    Attributes:
        op: Name with domain.
        order: Space-separated: ``0`` is the integers, scale and zero point of input 0, ``2=`` the
            integers of input 2 alone, ``y`` the output's scale and zero point, ``*`` every input's triple.
        attrs: Attributes that the form has and the float operator has not.
    """

    op: str
    order: str
    attrs: Mapping[str, int] | None = None


PASSES = QLinear("", "")
"""The float operator itself runs on integers: it only moves or compares them."""
TABLE = QLinear("", "table")
"""A function of one value: DequantizeLinear → operator → QuantizeLinear, 256 entries."""


@dataclass(frozen=True)
class OpSpec:
    """One row.

    Attributes:
        op: ONNX operator.
        inputs: Role of each input; the last stands for all further ones where ``variadic``.
        output: Where the outputs' parameters come from, unless the target prescribes them.
        layout: How the executor's kernel meets channels-last arrays.
        qlinear: ONNX Runtime's integer form; None where it has none and computes in float.
        litert: LiteRT's operator; None where its specification has none.
        fixed: Output parameters that LiteRT's specification prescribes.
        reciprocal: ONNX Runtime's kernel takes ⌊1/scale⌋ for 1/scale, so the scale must be 1/n.
        same_scale: LiteRT's specification wants inputs and output with one scale and zero point.
        activation: A clamp that may be fused into the operator before it.
        absorbs: An activation after it can be fused into its requantization.
        variadic: The last role repeats.
        two_activations: A weight that is not constant is an activation like any other.
    """

    op: str
    inputs: tuple[Role, ...]
    output: Output
    layout: Layout
    qlinear: QLinear | None = None
    litert: str | None = None
    fixed: Fixed | None = None
    reciprocal: bool = False
    same_scale: bool = False
    activation: bool = False
    absorbs: bool = False
    variadic: bool = False
    two_activations: bool = False

    @property
    def moves(self) -> bool:
        """Whether it computes nothing by itself: worth integers only beside a node that does."""
        return self.qlinear in (PASSES, TABLE)

    def role(self, index: int) -> Role:
        """The role of the input at that position."""
        if index < len(self.inputs):
            return self.inputs[index]
        return self.inputs[-1] if self.variadic else Role.KEEP


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
        litert="FULLY_CONNECTED",
    ),
    _linear(
        "MatMul",
        (_X, _W),
        FIRST,
        two_activations=True,
        qlinear=QLinear("QLinearMatMul", "0 1 y"),
        litert="BATCH_MATMUL",
    ),
    _linear("Add", (_X, _X), FOLLOWS, qlinear=QLinear(_MS + "QLinearAdd", "0 1 y"), litert="ADD"),
    _linear("Sub", (_X, _X), FOLLOWS, litert="SUB"),
    _linear("Mul", (_X, _X), FOLLOWS, qlinear=QLinear(_MS + "QLinearMul", "0 1 y"), litert="MUL"),
    OpSpec(
        "Relu",
        (_X,),
        Output.OBSERVED,
        FOLLOWS,
        qlinear=TABLE,
        litert="RELU",
        activation=True,
    ),
    OpSpec(
        "Clip",
        (_X, _V, _V),
        Output.OBSERVED,
        FOLLOWS,
        qlinear=TABLE,
        litert="RELU6",
        activation=True,
    ),
    OpSpec(
        "LeakyRelu",
        (_X,),
        Output.OBSERVED,
        FOLLOWS,
        qlinear=QLinear(_MS + "QLinearLeakyRelu", "0 y"),
        litert="LEAKY_RELU",
    ),
    OpSpec(
        "Sigmoid",
        (_X,),
        Output.OBSERVED,
        FOLLOWS,
        qlinear=QLinear(_MS + "QLinearSigmoid", "0 y"),
        litert="LOGISTIC",
        fixed=Fixed(1 / 256, -128),
    ),
    OpSpec("Tanh", (_X,), Output.OBSERVED, FOLLOWS, litert="TANH", fixed=Fixed(1 / 128, 0)),
    OpSpec(
        "Softmax",
        (_X,),
        Output.OBSERVED,
        FIRST,
        qlinear=QLinear(_MS + "QLinearSoftmax", "0 y"),
        litert="SOFTMAX",
        fixed=Fixed(1 / 256, -128),
        reciprocal=True,
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
    OpSpec("ReduceMean", (_X, _K), Output.OBSERVED, FIRST, litert="MEAN"),
    OpSpec(
        "Concat",
        (_X,),
        Output.ONE_GROUP,
        FOLLOWS,
        qlinear=QLinear(_MS + "QLinearConcat", "y *"),
        litert="CONCATENATION",
        same_scale=True,
        variadic=True,
    ),
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
    _move("Expand", None, n=1),
    _move("DepthToSpace", "DEPTH_TO_SPACE"),
    _move("SpaceToDepth", "SPACE_TO_DEPTH"),
    _move("Identity", None, FOLLOWS),
    OpSpec("Shape", (_X,), Output.NONE, FIRST, qlinear=PASSES, litert="SHAPE"),
)

QLINEAR_FORMS: Mapping[str, OpSpec] = {
    spec.qlinear.op: spec for spec in OPS.values() if spec.qlinear is not None and spec.qlinear.op
}
"""The rows by the names of their QLinear operators."""

MOVED_TO_INPUTS: Mapping[str, Mapping[int, str]] = {
    "Clip": {1: "min", 2: "max"},
    "Pad": {1: "pads", 2: "value", 3: "axes"},
    "ReduceMean": {1: "axes"},
    "Reshape": {1: "shape"},
    "Slice": {1: "starts", 2: "ends", 3: "axes", 4: "steps"},
    "Squeeze": {1: "axes"},
    "Unsqueeze": {1: "axes"},
}
"""Inputs that older opsets had as attributes, by position, under the attribute's name."""

UNARY = frozenset(
    [
        "Abs",
        "Ceil",
        "Celu",
        "Clip",
        "Cos",
        "Elu",
        "Erf",
        "Exp",
        "Floor",
        "Gelu",
        "HardSigmoid",
        "HardSwish",
        "LeakyRelu",
        "Log",
        "Mish",
        "Neg",
        "Reciprocal",
        "Relu",
        "Round",
        "Selu",
        "Sigmoid",
        "Sign",
        "Sin",
        "Softplus",
        "Softsign",
        "Sqrt",
        "Tanh",
        "ThresholdedRelu",
    ]
)
"""Functions of one value: on 8 bits, a table of 256 entries."""
