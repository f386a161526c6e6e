"""The runtimes that ptq quantizes for, one row each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ptq.core.errors import UsageError
from ptq.core.opspec import FixedQParams, OpSpec, OutputRule, Role
from ptq.core.types import INT8, INT8_WEIGHT, UINT8, QType


@dataclass(frozen=True)
class Target:
    """One row.

    Attributes:
        name: As ``--target`` takes it.
        activation: Integer type of activations.
        weight: Integer type of weights.
        arithmetic: The arithmetic that its runtime computes in, by default.
        specified: LiteRT's specification holds: fixed output parameters and same-scale operators.
        source: Where the row's facts come from.
        symmetric: n where activations have zero point 0 and S = threshold / n; None where they have both freely.
        weight_zero_point: Weights have a zero point of their own; else it is the middle of their type.
        per_channel: A weight may have one scale an output channel.
        tables: Its runtime has tables of 256 entries for functions of one value.
        more: Operators that it computes on integers though ONNX Runtime does not.
        real_outputs: Its products hand out real numbers where nobody reads integers.
        slower: Operators whose integer kernel takes longer than the float one between quantizers.
        gated: Functions x · g(x) whose gate it computes on integers as cheaply with a weight a channel, so that
            channels may be scaled through them.
        shores: The quantizers of its runtime may have a scale a channel where integers meet float.
        backward: Operators whose input takes the output's range (BackwardCalibration), so that S_x = S_y.
    """

    name: str
    activation: QType
    weight: QType
    arithmetic: str
    follows_litert_spec: bool
    source: str
    symmetric_divisor: int | None = None
    weight_zero_point: bool = False
    per_channel: bool = True
    has_lookup_tables: bool = False
    extra_integer_ops: frozenset[str] = field(default=frozenset())
    float_outputs: bool = False
    float_is_faster: frozenset[str] = field(default=frozenset())
    scale_through: frozenset[str] = field(default=frozenset())
    per_channel_boundaries: bool = False
    backward_calibration: frozenset[str] = field(default=frozenset())

    def can_quantize(self, spec: OpSpec) -> bool:
        """Whether the runtime gains from integers there: it has a kernel, or weights to store."""
        if spec.op in self.float_is_faster:
            return False
        if spec.op in self.extra_integer_ops or (spec.is_unary_function and self.has_lookup_tables):
            return True
        if self.follows_litert_spec:
            return spec.litert is not None or spec.ptq_kernel
        return spec.qlinear is not None or Role.WEIGHT in spec.input_roles

    def output_rule(self, spec: OpSpec) -> OutputRule | FixedQParams:
        """Where the operator's output parameters come from on this target."""
        if not self.follows_litert_spec:
            return spec.output_rule
        if spec.fixed_output is not None:
            zero_point = spec.fixed_output.zero_point + (0 if self.activation.signed else 128)
            return FixedQParams(spec.fixed_output.scale, zero_point)
        if spec.same_scale and spec.output_rule is OutputRule.OBSERVED:
            return OutputRule.SAME_AS_INPUT
        return spec.output_rule


TARGETS: Mapping[str, Target] = {
    target.name: target
    for target in (
        Target(
            "ort",
            UINT8,  # int8 leaves the neighbours of every tensor with two readers in float: measured
            INT8_WEIGHT,
            "ort",
            follows_litert_spec=False,
            source="ONNX Runtime 1.31.1, CPU",
            float_outputs=True,
            # 2.3 ns an element where DequantizeLinear, Softmax and QuantizeLinear take 0.6 to 0.9: measured
            float_is_faster=frozenset(["Softmax"]),
            scale_through=frozenset(["HardSwish"]),
            per_channel_boundaries=True,
        ),
        Target(
            "litert",
            INT8,
            INT8_WEIGHT,
            "litert",
            follows_litert_spec=True,
            source="LiteRT 8-bit quantization specification",
            has_lookup_tables=True,
        ),
        Target(
            "tpu-mlir",
            INT8,
            INT8_WEIGHT,  # threshold / 127
            "tpu-mlir",
            follows_litert_spec=False,
            source="TPU-MLIR developer manual",
            symmetric_divisor=128,
            has_lookup_tables=True,  # its Lut operator
            extra_integer_ops=frozenset(["PRelu", "Sub"]),
            # ForwardCalibration, S_y from S_x, is what the rows of movements say for every target
            backward_calibration=frozenset(["Clip", "LeakyRelu", "PRelu", "Relu"]),
        ),
        Target(
            "gemmlowp",
            UINT8,
            UINT8,
            "gemmlowp",
            follows_litert_spec=True,  # the uint8 scheme that LiteRT's specification has grown from
            source="gemmlowp, doc/quantization.md",
            weight_zero_point=True,
            per_channel=False,
            has_lookup_tables=True,
        ),
        Target(
            "tensorrt",
            INT8,
            INT8_WEIGHT,
            "ort",
            follows_litert_spec=False,
            source="TensorRT's explicit quantization: Q/DQ nodes, int8, zero point 0",
            symmetric_divisor=127,
        ),
    )
}


def get_target(name: str) -> Target:
    """The target of that name.

    Raises:
        UsageError: There is none.
    """
    if name not in TARGETS:
        raise UsageError(f"target {name!r} is unknown; choose one of {', '.join(TARGETS)}")
    return TARGETS[name]
