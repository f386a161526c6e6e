"""Row type of the operator table, and the values of its columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

MICROSOFT_PREFIX = "com.microsoft::"
"""Prefix of the names of operators in ONNX Runtime's own domain."""
WEIGHT_INPUT = 1
"""Position of the weight among the inputs of a layer."""
BIAS_INPUT = 2
"""Position of the bias among the inputs of a layer."""


class Role(Enum):
    """Role of an operator's input in quantization."""

    # Quantized per tensor; a constant by its own minimum and maximum.
    ACTIVATION = "activation"
    # Constant, symmetric, per output channel.
    WEIGHT = "weight"
    # Constant int32; its scale is that of the input times that of the weight.
    BIAS = "bias"
    # A float constant: a pad value, a bound of a clamp, an exponent, a scale of a normalization.
    VALUE = "value"
    # Not quantized: indices, shapes, axes.
    KEEP = "keep"


class OutputRule(Enum):
    """Source of an output's scale and zero point."""

    OBSERVED = "observed"
    SAME_AS_INPUT = "same as the input"
    ONE_GROUP = "one with all inputs"
    NONE = "not quantized"


class Layout(Enum):
    """Layout of the arrays that an operator's kernel takes in the executor."""

    # N, spatial…, C.
    SPATIAL = "channels last"
    # Any layout; attributes that name axes are translated.
    FOLLOWS = "either"
    # Channels first.
    FIRST = "as ONNX has it"


@dataclass(frozen=True)
class FixedQParams:
    """Scale and zero point that a specification prescribes; the zero point is that of int8."""

    scale: float
    zero_point: int


@dataclass(frozen=True)
class QLinearForm:
    """ONNX Runtime's integer operator and the order of its inputs.

    Attributes:
        op: Name with domain.
        order: Space-separated inputs of the integer operator. ``0`` stands for integers, scale and zero point of
            input 0; ``0q``, ``0s`` and ``0z`` stand for one of them. ``2=`` stands for the integers of a bias, ``y``
            for scale and zero point of the output, ``*`` for the three of every input.
        attrs: Attributes that only the integer operator has, with their values.
    """

    op: str
    order: str
    attrs: Mapping[str, int] | None = None


RUNS_ON_INTEGERS = QLinearForm("", "")
"""The float operator itself runs on integers: it moves or compares them."""
AS_LOOKUP_TABLE = QLinearForm("", "table")
"""A function of one value: DequantizeLinear → operator → QuantizeLinear, 256 entries."""


@dataclass(frozen=True)
class OpSpec:
    """One row of the operator table.

    Attributes:
        op: ONNX operator.
        input_roles: Role of each input. If ``variadic``, the last role holds for all further inputs.
        output_rule: Source of the outputs' parameters, unless the target prescribes them.
        layout: Layout of the arrays that the executor's kernel takes.
        qlinear: ONNX Runtime's integer form; None if it computes the operator in float.
        litert: LiteRT's operator; None if its 8-bit specification has none.
        litert_in_float: Whether a `.tflite` file has only float operators for it.
        fixed_output: Output parameters that LiteRT's specification prescribes.
        same_scale: LiteRT's specification requires the same scale and zero point for inputs and output.
        is_activation: It is a clamp that can be fused into the operator before it.
        can_fuse_activation: An activation after it can be fused into its requantization.
        variadic: The last role repeats.
        two_activations: A second operand that is not constant is an activation, not a weight.
        is_unary_function: It maps one value to one value: a table of 256 entries for 8 bits, in any arithmetic.
        ptq_kernel: ptq has an integer-only kernel of its own; LiteRT's specification has no operator.
        float_output_form: ONNX Runtime's integer form that returns float.
    """

    op: str
    input_roles: tuple[Role, ...]
    output_rule: OutputRule
    layout: Layout
    qlinear: QLinearForm | None = None
    litert: str | None = None
    litert_in_float: bool = False
    fixed_output: FixedQParams | None = None
    same_scale: bool = False
    is_activation: bool = False
    can_fuse_activation: bool = False
    variadic: bool = False
    two_activations: bool = False
    is_unary_function: bool = False
    ptq_kernel: bool = False
    float_output_form: QLinearForm | None = None

    @property
    def moves_integers(self) -> bool:
        """Return whether outputs hold integers of the input unchanged, because the operator runs on integers."""
        return self.qlinear is RUNS_ON_INTEGERS and self.output_rule is not OutputRule.NONE

    @property
    def follows_neighbours(self) -> bool:
        """Return whether it computes nothing that is worth integers by itself.

        It moves or compares integers, or is a function of one value, which is a lookup table. It is quantized
        only next to nodes that are worth it.
        """
        return self.qlinear in (RUNS_ON_INTEGERS, AS_LOOKUP_TABLE) or (
            self.is_unary_function and self.qlinear is None
        )

    def role_of(self, index: int) -> Role:
        """Return the role of the input at that position."""
        if index < len(self.input_roles):
            return self.input_roles[index]
        return self.input_roles[-1] if self.variadic else Role.KEEP
