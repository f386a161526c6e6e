"""What a runtime computes on integers, and in which form it reads them: the row type of the target table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ptq.core.ops import LINEAR_OPS
from ptq.core.opspec import FixedQParams, OpSpec, OutputRule, Role
from ptq.core.types import QType

LintRules = Literal["litert", "tensorrt", "xnnpack"]
"""Names of the published rules that a quantized model can be checked against."""


@dataclass(frozen=True)
class Target:
    """What a runtime computes on integers, and in which numbers.

    Attributes:
        name: The name that a user gives.
        activation: Integer type of activations.
        weight: Integer type of weights.
        arithmetic: Name of the arithmetic that its runtime computes in by default.
        follows_litert_spec: LiteRT's specification holds: fixed output parameters and same-scale operators.
        source: The document or runtime that the facts of the row come from.
        symmetric_divisor: n, where activations have zero point 0 and S = threshold / n. None where scale and zero
            point are both free.
        weight_zero_point: Weights have a zero point of their own. Otherwise it is the middle of their type.
        per_channel: A weight may have one scale for each output channel.
        has_lookup_tables: The runtime has tables of 256 entries for functions of one value.
        extra_integer_ops: Operators that the runtime computes on integers although ONNX Runtime does not.
        float_outputs: Gemm and MatMul return float where no node reads their output as integers.
        float_is_faster: Operators whose integer kernel takes longer than the float one between quantizers.
        scale_through: Functions x · g(x) through which channels may be scaled: the integer kernel of the gate g
            takes no longer with one weight for each channel.
        per_channel_boundaries: Quantizers may have one scale for each channel where integers meet float.
        backward_calibration: Operators whose input takes the output's range (BackwardCalibration), so that S_x = S_y.
        costs: Name of a table of measured times, which decides what stays float; the nearest to the machine serves
            (`ptq.solver.partition.shipped_tables`). None where all that can be integers becomes integers.
        has_ort_workarounds: QDQ graphs are rewritten so that ONNX Runtime runs them fast.
        int16_pairs_saturate: Its kernels for x86 without VNNI add pairs of products in int16, which saturates.
        pairs_channels: Those kernels also pair the channels of each position, and pair those of a ConvTranspose.
        uint8_weights: Signed weights may be stored as uint8 with zero point 128: the same integers.
        reads_qoperator: Its runtime reads models in QOperator form.
        writes_tflite: Its models can be written as `.tflite` files.
        integer_ops: The operators that it computes on integers; None for all that have an integer kernel or weights.
        float_activation_products: Products of two activations stay float.
        quantizes_inputs_only: Quantizers stand only before inputs of integer nodes, whose kernels return float: an
            activation behind a layer belongs to its kernel, and graph outputs stay float.
        float_biases: Biases stay float.
        float_division: Divisions stay float: integers make the lowest or highest value of a quotient below half an
            LSB (`ptq.executor.arithmetics.litert_functions`).
        divides_for_reciprocal: A quantized Reciprocal is written as 1 divided by its input.
        keeps_reduced_axes: ReduceMax and ReduceMin are written with axes of length 1, and Squeeze.
        fuses_around_matmul: Dense layers of more than two axes are written as MatMul and Add, without Reshapes. Its
            kernels fuse nothing past a Reshape.
        zero_points_in_biases: Zero points of activations stand in the biases of the dense layers and pointwise
            convolutions that read them; its kernels are slower with a zero point.
        float_padded_depthwise: Depthwise convolutions with padding stay float where their input needs a zero point.
        quantizes_tables: Tables of which a float Gather reads rows are stored in int8.
        leaves_layers_float: Small first layers and layers of one row stay float, by measured times
            (`ptq.solver.partition.float_layers`).
        integer_border: Inputs and outputs of the model will be integers. So nodes that read or write them do not stay
            float for speed.
        wide_activation: Integer type of activations that 8 bits do not hold: the pieces of a normalization that is
            written in several operators.
        wide_target: Name of the target of the same runtime whose activations have 16 bits; None if there is none.
        integer_normalizations: Normalizations in several operators become integers too, because a float node would
            leave the device.
        lint: Name of the published rules that its files are checked against; None if it has none.
        runtime: Name of the runtime in which a quantization measures its result, if it is installed; None if ptq has
            none but ONNX Runtime.
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
    costs: str | None = None
    has_ort_workarounds: bool = False
    int16_pairs_saturate: bool = False
    pairs_channels: bool = False
    uint8_weights: bool = False
    reads_qoperator: bool = True
    writes_tflite: bool = False
    integer_ops: frozenset[str] | None = None
    float_activation_products: bool = False
    quantizes_inputs_only: bool = False
    float_biases: bool = False
    float_division: bool = False
    divides_for_reciprocal: bool = False
    keeps_reduced_axes: bool = False
    fuses_around_matmul: bool = False
    zero_points_in_biases: bool = False
    float_padded_depthwise: bool = False
    quantizes_tables: bool = False
    leaves_layers_float: bool = False
    integer_border: bool = False
    wide_activation: QType | None = None
    wide_target: str | None = None
    integer_normalizations: bool = False
    lint: LintRules | None = None
    runtime: str | None = None

    @property
    def layers_return_float(self) -> bool:
        """Whether a layer on integers can return float, to which products in float can be added."""
        return self.float_outputs or self.quantizes_inputs_only

    @property
    def has_float_functions(self) -> bool:
        """Whether only layers have integers, so that a function gains nothing from one operator of its own."""
        return self.integer_ops is not None and self.integer_ops <= LINEAR_OPS

    def can_quantize(self, spec: OpSpec) -> bool:
        """Whether the runtime gains from integers: it has an integer kernel, or weights to store."""
        if spec.op in self.float_is_faster or (
            spec.op == "Div" and self.float_division and not self.integer_border
        ):
            return False
        if self.integer_ops is not None:
            return spec.op in self.integer_ops
        if spec.op in self.extra_integer_ops or (spec.is_unary_function and self.has_lookup_tables):
            return True
        if self.follows_litert_spec:
            return spec.litert is not None or spec.ptq_kernel
        return spec.qlinear is not None or Role.WEIGHT in spec.input_roles

    def output_rule(self, spec: OpSpec) -> OutputRule | FixedQParams:
        """The rule for the operator's output scale and zero point on this target."""
        if not self.follows_litert_spec:
            return spec.output_rule
        if spec.fixed_output is not None:
            if self.activation.signed and self.activation.bits > 8:  # LiteRT's 16 bits: around 0
                return FixedQParams(2.0 ** (1 - self.activation.bits), 0)
            steps = 2 ** (self.activation.bits - 8)  # of a wider type in one step of 8 bits
            zero_point = spec.fixed_output.zero_point + (0 if self.activation.signed else 128)
            return FixedQParams(spec.fixed_output.scale / steps, zero_point * steps)
        if spec.same_scale and spec.output_rule is OutputRule.OBSERVED:
            return OutputRule.SAME_AS_INPUT
        return spec.output_rule
