"""The target table: the runtimes that ptq quantizes for, one row each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from ptq.core.ops import LINEAR_OPS, OPS
from ptq.core.option_checks import require_choice
from ptq.core.target import Target
from ptq.core.types import INT8, INT8_WEIGHT, INT16, UINT8, UINT16

TargetName = Literal[
    "ort",
    "litert",
    "litert-xnnpack",
    "litert-a16",
    "tpu-mlir",
    "gemmlowp",
    "tensorrt",
    "openvino",
    "portable",
    "qnn",
    "qnn-a16",
    "ort-xnnpack",
]
"""Names of the rows of `TARGETS`, for type checkers."""

WIDE_LITERT_OPS = frozenset(
    [
        "Abs", "Add", "AveragePool", "Clip", "Concat", "Conv", "ConvTranspose", "Exp", "Expand", "Flatten", "Gather",
        "Gelu", "Gemm", "GlobalAveragePool", "GlobalMaxPool", "Identity", "LeakyRelu", "MatMul", "Max", "MaxPool",
        "Min", "Mul", "Pad", "ReduceMax", "ReduceMean", "ReduceMin", "Relu", "Reshape", "Resize linear",
        "Resize nearest", "Sigmoid", "Slice", "Softmax", "Split", "Squeeze", "Sub", "Tanh", "Tile", "Transpose",
        "Unsqueeze", "Where",
    ]
)  # fmt: skip
"""Operators that LiteRT computes on activations of 16 bits, in its reference kernels and its default ones."""

OUTSIDE_XNNPACK = frozenset(
    [
        "Abs", "AveragePool", "Elu", "Exp", "Gelu", "HardSwish", "Log", "Max", "Min", "PRelu", "Softmax", "Sqrt",
        *(spec.op for spec in OPS.values() if spec.is_unary_function and spec.litert is None),
    ]
) - {"Erf", "ThresholdedRelu"}  # fmt: skip
"""Operators that split a `.tflite` file in several parts of XNNPACK if they are integers, found with LiteRT 2.3.0. A
HardSwish takes ten times as long as in float. Functions without an operator of LiteRT are tables (CAST, ADD, GATHER):
three integer passes take longer than the float function. LiteRT has no float form of Erf and ThresholdedRelu."""


_LITERT = Target(
    "litert",
    INT8,
    INT8_WEIGHT,
    "litert",
    follows_litert_spec=True,
    source="LiteRT 8-bit quantization specification",
    has_lookup_tables=True,
    float_division=True,
    lint="litert",
    writes_tflite=True,
    wide_target="litert-a16",
)

_QNN = Target(
    "qnn",
    UINT8,
    INT8_WEIGHT,
    "ort",
    # float nodes run on the CPU, or the graph cannot be built: all that has integers becomes integers
    follows_litert_spec=True,
    source="Qualcomm's HTP",
    has_lookup_tables=True,
    reads_qoperator=False,
    divides_for_reciprocal=True,
    # measured: the 8-bit moments of a normalization in several operators leave -0.3 dB of a network
    wide_activation=UINT16,
    integer_normalizations=True,
    runtime="qnn",
    wide_target="qnn-a16",
)

TARGETS: Mapping[str, Target] = {
    target.name: target
    for target in (
        Target(
            "ort",
            # measured: with int8 the neighbours of every tensor with two readers run in float
            UINT8,
            INT8_WEIGHT,
            "ort",
            follows_litert_spec=False,
            source="ONNX Runtime's CPU provider",
            float_outputs=True,
            # measured: 2.3 ns for each element; DequantizeLinear, Softmax and QuantizeLinear take 0.6 to 0.9 ns
            float_is_faster=frozenset(["Softmax"]),
            scale_through=frozenset(["HardSwish"]),
            per_channel_boundaries=True,
            costs="ort-1.31-avx512-vnni",
            has_ort_workarounds=True,
            quantizes_tables=True,
            int16_pairs_saturate=True,
            uint8_weights=True,
        ),
        _LITERT,
        replace(
            _LITERT,
            name="litert-xnnpack",
            arithmetic="litert-xnnpack",
            source="LiteRT 2.3.0 with XNNPACK",
            # measured: a vision transformer is 2.6 times slower than float with its int8 BATCH_MATMUL
            float_is_faster=OUTSIDE_XNNPACK,
            float_activation_products=True,
        ),
        replace(
            _LITERT,
            name="litert-a16",
            wide_target=None,
            activation=INT16,
            symmetric_divisor=INT16.hi,
            integer_ops=WIDE_LITERT_OPS,
            reads_qoperator=False,
            lint=None,
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
            # ForwardCalibration, S_y from S_x: the operator table says it of data movement for every target
            backward_calibration=frozenset(["Clip", "LeakyRelu", "PRelu", "Relu"]),
        ),
        Target(
            "gemmlowp",
            UINT8,
            UINT8,
            "gemmlowp",
            # the uint8 scheme from which LiteRT's specification grew
            follows_litert_spec=True,
            source="gemmlowp, doc/quantization.md",
            weight_zero_point=True,
            per_channel=False,
            has_lookup_tables=True,
            float_division=True,
            lint="litert",
        ),
        Target(
            "tensorrt",
            INT8,
            INT8_WEIGHT,
            "ort",
            follows_litert_spec=False,
            source="TensorRT",
            symmetric_divisor=127,
            # its importer knows QuantizeLinear and DequantizeLinear, and no QLinear operator
            reads_qoperator=False,
            # the layers of its guide to explicit quantization; it moves quantizers past data movement by itself
            integer_ops=LINEAR_OPS | {"Add"},
            quantizes_inputs_only=True,
            # its importer takes INT8, INT4 and FP8 for the input of a DequantizeLinear
            float_biases=True,
            lint="tensorrt",
        ),
        Target(
            "openvino",
            UINT8,
            INT8_WEIGHT,
            "ort",
            follows_litert_spec=False,
            source="OpenVINO 2026.4, CPU",
            reads_qoperator=False,
            # measured: its kernels of these layers take quantizers before and activations behind for nothing. Each
            # operator on integers between them takes as long as in float, or longer, and costs accuracy.
            integer_ops=LINEAR_OPS,
            float_activation_products=True,
            # measured: a quantized Concat behind an Expand of a dynamic batch is computed wrong (3 dB instead of 34)
            quantizes_inputs_only=True,
            float_biases=True,
            # measured: OpenVINO computes them wrong before a quantizer (`ptq.rewrite.emit.keep_reduced_axes`)
            keeps_reduced_axes=True,
            fuses_around_matmul=True,
            zero_points_in_biases=True,
            # measured: up to 15 % slower with a zero point between two pointwise convolutions, 4 % faster without
            float_padded_depthwise=True,
            leaves_layers_float=True,
            quantizes_tables=True,
            # measured: jit_avx2 kernels pair the channels of each tap, where ONNX Runtime goes on to the next tap
            int16_pairs_saturate=True,
            pairs_channels=True,
            runtime="openvino",
        ),
        Target(
            "portable",
            UINT8,
            INT8_WEIGHT,
            "ort",
            follows_litert_spec=False,
            source="the portable form, of layers alone",
            reads_qoperator=False,
            integer_ops=LINEAR_OPS,
            float_activation_products=True,
            quantizes_inputs_only=True,
            float_biases=True,
            keeps_reduced_axes=True,
            fuses_around_matmul=True,
            quantizes_tables=True,
            int16_pairs_saturate=True,
            pairs_channels=True,
        ),
        _QNN,
        replace(_QNN, name="qnn-a16", activation=UINT16, wide_activation=None, wide_target=None),
        Target(
            "ort-xnnpack",
            INT8,
            INT8_WEIGHT,
            "ort",
            # its kernels take int8 with int8 weights, by channel, and ONNX Runtime has the rest
            follows_litert_spec=True,
            source="ONNX Runtime's XNNPACK provider",
            lint="xnnpack",
            runtime="ort-xnnpack",
        ),
    )
}


def get_target(name: str) -> Target:
    """The target with the given name.

    Raises:
        UsageError: No target has the name.
    """
    require_choice("target", name, TARGETS)
    return TARGETS[name]
