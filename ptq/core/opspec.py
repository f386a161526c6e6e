"""The vocabulary of the operator table: what a row can say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Role(Enum):
    """What an input is to the quantizer."""

    ACTIVATION = "activation"  # quantized per tensor; a constant one by its own extremes
    WEIGHT = "weight"  # constant, symmetric, per output channel
    BIAS = "bias"  # constant int32 with scale input × weight
    VALUE = "value"  # a real constant: a pad value, a clamp's bound, an exponent, a normalization's scale
    KEEP = "keep"  # left alone: indices, shapes, axes


class OutputRule(Enum):
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
class FixedQParams:
    """Scale and zero point that a specification prescribes, the zero point as int8 counts it."""

    scale: float
    zero_point: int


@dataclass(frozen=True)
class QLinearForm:
    """ONNX Runtime's integer operator and the order of its inputs.

    Attributes:
        op: Name with domain.
        order: Space-separated: ``0`` is the integers, scale and zero point of input 0, ``0q``, ``0s`` and
            ``0z`` each of them alone, ``2=`` the integers of a bias, ``y`` the output's scale and zero point,
            ``*`` every input's triple.
        attrs: Attributes that the form has and the float operator has not.
    """

    op: str
    order: str
    attrs: Mapping[str, int] | None = None


RUNS_ON_INTEGERS = QLinearForm("", "")
"""The float operator itself runs on integers: it only moves or compares them."""
AS_LOOKUP_TABLE = QLinearForm("", "table")
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
        same_scale: LiteRT's specification wants inputs and output with one scale and zero point.
        activation: A clamp that may be fused into the operator before it.
        absorbs: An activation after it can be fused into its requantization.
        variadic: The last role repeats.
        two_activations: A weight that is not constant is an activation like any other.
        function: It maps one value to one value: on 8 bits, a table of 256 entries in any arithmetic.
        own: Integer-only by a kernel of ptq's own where LiteRT's specification has no operator.
        real: ONNX Runtime's integer form that hands out real numbers.
    """

    op: str
    input_roles: tuple[Role, ...]
    output_rule: OutputRule
    layout: Layout
    qlinear: QLinearForm | None = None
    litert: str | None = None
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
        """Whether its outputs hold integers of its input, unchanged: the float operator runs on integers too."""
        return self.qlinear is RUNS_ON_INTEGERS and self.output_rule is not OutputRule.NONE

    @property
    def follows_neighbours(self) -> bool:
        """Whether it computes nothing that is worth integers by itself: quantize it only next to a node that does.

        These are operators that move or compare values, and functions of one value, which are lookup tables.
        """
        return self.qlinear in (RUNS_ON_INTEGERS, AS_LOOKUP_TABLE) or (
            self.is_unary_function and self.qlinear is None
        )

    def role_of(self, index: int) -> Role:
        """The role of the input at that position."""
        if index < len(self.input_roles):
            return self.input_roles[index]
        return self.input_roles[-1] if self.variadic else Role.KEEP
