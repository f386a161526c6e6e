"""The runtimes that ptq quantizes for, one row each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ptq.core.errors import UsageError
from ptq.core.opspec import Fixed, OpSpec, Output, Role
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
    specified: bool
    source: str
    symmetric: int | None = None
    weight_zero_point: bool = False
    per_channel: bool = True
    tables: bool = False
    more: frozenset[str] = field(default=frozenset())
    real_outputs: bool = False
    slower: frozenset[str] = field(default=frozenset())
    gated: frozenset[str] = field(default=frozenset())
    shores: bool = False
    backward: frozenset[str] = field(default=frozenset())

    def quantizes(self, spec: OpSpec) -> bool:
        """Whether the runtime gains from integers there: it has a kernel, or weights to store."""
        if spec.op in self.slower:
            return False
        if spec.op in self.more or (spec.function and self.tables):
            return True
        if self.specified:
            return spec.litert is not None or spec.own
        return spec.qlinear is not None or Role.WEIGHT in spec.inputs

    def output(self, spec: OpSpec) -> Output | Fixed:
        """Where the operator's output parameters come from on this target."""
        if not self.specified:
            return spec.output
        if spec.fixed is not None:
            zero_point = spec.fixed.zero_point + (0 if self.activation.signed else 128)
            return Fixed(spec.fixed.scale, zero_point)
        if spec.same_scale and spec.output is Output.OBSERVED:
            return Output.SAME_AS_INPUT
        return spec.output


TARGETS: Mapping[str, Target] = {
    target.name: target
    for target in (
        Target(
            "ort",
            UINT8,  # int8 leaves the neighbours of every tensor with two readers in float: measured
            INT8_WEIGHT,
            "ort",
            specified=False,
            source="ONNX Runtime 1.31.1, CPU",
            real_outputs=True,
            # 2.3 ns an element where DequantizeLinear, Softmax and QuantizeLinear take 0.6 to 0.9: measured
            slower=frozenset(["Softmax"]),
            gated=frozenset(["HardSwish"]),
            shores=True,
        ),
        Target(
            "litert",
            INT8,
            INT8_WEIGHT,
            "litert",
            specified=True,
            source="LiteRT 8-bit quantization specification",
            tables=True,
        ),
        Target(
            "tpu-mlir",
            INT8,
            INT8_WEIGHT,  # threshold / 127
            "tpu-mlir",
            specified=False,
            source="TPU-MLIR developer manual",
            symmetric=128,
            tables=True,  # its Lut operator
            more=frozenset(["PRelu", "Sub"]),
            # ForwardCalibration, S_y from S_x, is what the rows of movements say for every target
            backward=frozenset(["Clip", "LeakyRelu", "PRelu", "Relu"]),
        ),
        Target(
            "gemmlowp",
            UINT8,
            UINT8,
            "gemmlowp",
            specified=True,  # the uint8 scheme that LiteRT's specification has grown from
            source="gemmlowp, doc/quantization.md",
            weight_zero_point=True,
            per_channel=False,
            tables=True,
        ),
        Target(
            "tensorrt",
            INT8,
            INT8_WEIGHT,
            "ort",
            specified=False,
            source="TensorRT's explicit quantization: Q/DQ nodes, int8, zero point 0",
            symmetric=127,
        ),
    )
}


def target(name: str) -> Target:
    """The target of that name.

    Raises:
        UsageError: There is none.
    """
    if name not in TARGETS:
        raise UsageError(f"target {name!r} is unknown; choose one of {', '.join(TARGETS)}")
    return TARGETS[name]
