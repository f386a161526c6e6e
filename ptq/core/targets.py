"""The target table: the runtimes that ptq quantizes for, one row each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ptq.core.option_checks import require_choice
from ptq.core.target import Target
from ptq.core.types import INT8, INT8_WEIGHT, UINT8

TargetName = Literal["ort", "litert", "tpu-mlir", "gemmlowp", "tensorrt"]
"""Names of the rows of `TARGETS`, for type checkers."""


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
            source="ONNX Runtime 1.31.1, CPU",
            float_outputs=True,
            # measured: 2.3 ns for each element; DequantizeLinear, Softmax and QuantizeLinear take 0.6 to 0.9 ns
            float_is_faster=frozenset(["Softmax"]),
            scale_through=frozenset(["HardSwish"]),
            per_channel_boundaries=True,
            costs="ort-1.31-avx512-vnni",
            has_ort_workarounds=True,
            int16_pairs_saturate=True,
            uint8_weights=True,
        ),
        Target(
            "litert",
            INT8,
            INT8_WEIGHT,
            "litert",
            follows_litert_spec=True,
            source="LiteRT 8-bit quantization specification",
            has_lookup_tables=True,
            lint="litert",
            writes_tflite=True,
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
            integer_ops=frozenset(["Add", "Conv", "ConvTranspose", "Gemm", "MatMul"]),
            quantizes_inputs_only=True,
            # its importer takes INT8, INT4 and FP8 for the input of a DequantizeLinear
            float_biases=True,
            lint="tensorrt",
            requires=(
                "TensorRT 8.6 or newer; quantizers say the precision, so no calibration cache is needed",
                "what stays float runs in half precision if the engine is built with it",
            ),
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
