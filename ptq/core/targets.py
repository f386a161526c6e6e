"""Target table: the runtimes that ptq quantizes for, one row each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ptq.core.errors import UsageError
from ptq.core.opspec import FixedQParams, OpSpec, OutputRule, Role
from ptq.core.types import INT8, INT8_WEIGHT, UINT8, QType


@dataclass(frozen=True)
class Target:
    """One row of the target table.

    Attributes:
        name: Value of ``--target``.
        activation: Integer type of activations.
        weight: Integer type of weights.
        arithmetic: Default arithmetic of the executor.
        follows_litert_spec: LiteRT's specification holds: fixed output parameters and same-scale operators.
        source: Source of the facts in the row.
        symmetric_divisor: n if activations have zero point 0 and S = threshold / n; None if scale and zero point are
            both free.
        weight_zero_point: Weights have their own zero point; otherwise it is the middle of their type.
        per_channel: A weight may have one scale for each output channel.
        has_lookup_tables: The runtime computes functions of one value by tables of 256 entries.
        extra_integer_ops: Operators that the runtime computes on integers although ONNX Runtime does not.
        float_outputs: Integer matrix products return float if no reader needs integers.
        float_is_faster: Operators whose integer kernel is slower than the float kernel between quantizers.
        scale_through: Functions x · g(x) through which channels may be scaled: the runtime computes g on integers
            equally fast with a per-channel weight.
        per_channel_boundaries: Quantizers between integers and float may have per-channel scales.
        backward_calibration: Operators whose input takes the output's range (BackwardCalibration), so that S_x = S_y.
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
        """Return whether the runtime gains from integers there: it has a kernel, or stores the weights."""
        if spec.op in self.float_is_faster:
            return False
        if spec.op in self.extra_integer_ops or (spec.is_unary_function and self.has_lookup_tables):
            return True
        if self.follows_litert_spec:
            return spec.litert is not None or spec.ptq_kernel
        return spec.qlinear is not None or Role.WEIGHT in spec.input_roles

    def output_rule(self, spec: OpSpec) -> OutputRule | FixedQParams:
        """Return the source of the operator's output parameters on this target."""
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
            # Measured: int8 leaves the neighbours of every tensor with two readers in float.
            UINT8,
            INT8_WEIGHT,
            "ort",
            follows_litert_spec=False,
            source="ONNX Runtime 1.31.1, CPU",
            float_outputs=True,
            # Measured: 2.3 ns an element; DequantizeLinear, Softmax and QuantizeLinear together take 0.6 to 0.9.
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
            # S = threshold / 127.
            INT8_WEIGHT,
            "tpu-mlir",
            follows_litert_spec=False,
            source="TPU-MLIR developer manual",
            symmetric_divisor=128,
            # The Lut operator.
            has_lookup_tables=True,
            extra_integer_ops=frozenset(["PRelu", "Sub"]),
            # ForwardCalibration (S_y from S_x) of data movement is SAME_AS_INPUT in the operator table.
            backward_calibration=frozenset(["Clip", "LeakyRelu", "PRelu", "Relu"]),
        ),
        Target(
            "gemmlowp",
            UINT8,
            UINT8,
            "gemmlowp",
            # LiteRT's specification descends from this uint8 scheme.
            follows_litert_spec=True,
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
    """Return the target of that name.

    Raises:
        UsageError: The name is unknown.
    """
    if name not in TARGETS:
        raise UsageError(f"target {name!r} is unknown; choose one of {', '.join(TARGETS)}")
    return TARGETS[name]
