"""Integer arithmetics of runtimes: how each computes each operator.

In reading order:

    node_site                what an arithmetic knows about a node before the data
    linear                   Conv, ConvTranspose, Gemm, MatMul on exact sums, in every arithmetic
    linear_raw               Conv, Gemm, MatMul for arithmetics with their own accumulation
    data_movement            Reshape, Transpose, Concat, MaxPool …: the same in every arithmetic, but for SAME
    min_max                  reductions and selections by order: the same in every arithmetic
    resize                   sizes, factors and modes of a Resize
    activation_clamp         Relu and Clip as bounds of a requantization
    legacy_softmax           Softmax over several axes, as before opset 13
    unary_functions          functions of one value as tables
    quantizers               QuantizeLinear and DequantizeLinear
    ort                      ONNX Runtime with VNNI
    ort_elementwise          its elementwise operators
    ort_pool                 its average pools
    ort_softmax              its Softmax
    ort_avx2                 ONNX Runtime without VNNI
    ort_versions             what changed between versions of ONNX Runtime
    litert                   LiteRT's reference kernels
    litert_requantizer       its rounding of accumulators, at the speed of float32
    litert_elementwise       its elementwise operators
    litert_functions         its Abs, Div, Gelu, Sqrt
    litert_nonlinear         its PRelu, HardSwish, LpNormalization
    litert_pool              its averages and sums
    litert_softmax           its Softmax and LogSoftmax
    litert_select            its comparisons
    litert_image             its Resize and space-to-batch
    litert_wide              its products, sums and pools on activations of 16 bits
    litert_wide_functions    its functions on activations of 16 bits
    litert_xnnpack           its default kernels on processors, where they round otherwise
    litert_xnnpack_elementwise  the same for its elementwise operators
    normalization            LayerNormalization and InstanceNormalization in integers
    tflite_micro             where tflite-micro differs from LiteRT
    gemmlowp                 the uint8 scheme of gemmlowp
    fixed_point_functions    Sigmoid and Tanh in fixed point
    tpu_mlir                 TPU-MLIR's multipliers and shifts
    tpu_mlir_elementwise     its elementwise operators and pools
    tpu_mlir_data_movement   its data movement between scales
    fixed_point              scale alignment by shifts alone
    fixed_point_align        its alignment and requantization
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal

import numpy as np

from ptq.core.errors import UsageError
from ptq.core.option_checks import require_choice
from ptq.executor.arithmetics import (
    fixed_point,
    gemmlowp,
    linear,
    litert,
    litert_wide,
    litert_xnnpack,
    ort,
    ort_avx2,
    ort_versions,
    tflite_micro,
    tpu_mlir,
)
from ptq.executor.arithmetics.node_site import (
    Kernel,
    KernelMaker,
    Site,
    get_activation_qparams,
    get_weight_qparams,
)
from ptq.kernels.requantizer import Requantizer
from ptq.model.machine.ort_version import INSTALLED, parse_version


@dataclass(frozen=True, eq=False)
class Arithmetic:
    """One row of the table of arithmetics.

    Attributes:
        name: Name by which a caller selects it.
        kernels: Kernel maker of each operator; an operator without one cannot run.
        reference: The runtime whose bytes it computes, or how closely it follows a publication.
        source: Source of its rules.
        is_onnxruntime: Whether its kernels are those of a version of ONNX Runtime: the installed one, or the one that
            is named, as in ``ort@1.31``.
        computes_int8_as_uint8: Whether an int8 tensor between a QuantizeLinear and its only DequantizeLinear is
            computed in uint8, plus 128, as ONNX Runtime does on x86. A zero point in the sum changes the rounding.
        wide_kernels: Kernel maker of each operator on activations of 16 bits. Without one, the operator is a float
            island between quantizers of 16 bits.
        lacking: Operators that its runtime has no kernel for, with their names in its file. They are refused.
    """

    name: str
    kernels: Mapping[str, KernelMaker]
    reference: str
    source: str
    is_onnxruntime: bool = False
    computes_int8_as_uint8: bool = False
    wide_kernels: Mapping[str, KernelMaker] = field(default_factory=dict)
    lacking: Mapping[str, str] = field(default_factory=dict)


def _with_float_outputs(kernels: Mapping[str, KernelMaker]) -> Mapping[str, KernelMaker]:
    """Return the kernels with Gemm and MatMul whose output stays float: the exact sum times a scale.

    Only ONNX Runtime has such products; the rule serves all arithmetics.
    """

    def either(op: str, core: Callable[[Site, Requantizer], Kernel]) -> KernelMaker:
        def make(site: Site) -> Kernel:
            if site.outputs[0] is not None:
                return kernels[op](site)
            alpha = np.float32(site.attrs.get("alpha", 1.0))
            scale = np.asarray(
                (alpha * get_activation_qparams(site).scale) * get_weight_qparams(site).scale
            )
            return core(site, linear.make_float_rescaler(scale))

        return make

    return {
        **kernels,
        "Gemm": either("Gemm", linear.make_gemm_kernel),
        "MatMul": either("MatMul", linear.make_matmul_kernel),
    }


ALL_ARITHMETICS: tuple[Arithmetic, ...] = (
    Arithmetic(
        "ort",
        ort_versions.get_kernels_of_version(ort.KERNELS, INSTALLED),
        "the installed ONNX Runtime (1.20 to 1.32) on x86-64 with VNNI, bit for bit",
        "experiments with its QLinear kernels",
        is_onnxruntime=True,
        computes_int8_as_uint8=True,
    ),
    Arithmetic(
        "ort-avx2",
        ort_versions.get_kernels_of_version(ort_avx2.KERNELS, INSTALLED),
        "the installed ONNX Runtime (1.20 to 1.32) on x86-64 with AVX2 and no VNNI, bit for bit",
        "experiments with its QLinear kernels (1.31.1) on an emulated Haswell and on an AMD EPYC without VNNI",
        is_onnxruntime=True,
        computes_int8_as_uint8=True,
    ),
    Arithmetic(
        "litert",
        _with_float_outputs(litert.KERNELS),
        "LiteRT 2.3.0's reference kernels, bit for bit",
        "LiteRT 8-bit quantization specification; experiments",
        wide_kernels=litert_wide.KERNELS,
    ),
    Arithmetic(
        "litert-xnnpack",
        _with_float_outputs(litert_xnnpack.KERNELS),
        "LiteRT 2.3.0's default kernels (XNNPACK) on x86-64",
        "experiments, where they differ from LiteRT's reference kernels",
        wide_kernels=litert_xnnpack.WIDE_KERNELS,
    ),
    Arithmetic(
        "tflite-micro",
        _with_float_outputs(tflite_micro.KERNELS),
        "tflite-micro 0.dev20261023182759, bit for bit; Exp, Gelu and Tile, which it lacks, are refused",
        "experiments, where it differs from LiteRT",
        lacking=tflite_micro.LACKING,
    ),
    Arithmetic(
        "gemmlowp",
        _with_float_outputs(gemmlowp.KERNELS),
        "the uint8 paradigm as published",
        "Jacob et al. 2018, sections 2.2-2.4; gemmlowp, doc/quantization.md",
    ),
    Arithmetic(
        "tpu-mlir",
        _with_float_outputs(tpu_mlir.KERNELS),
        "the published derivations, 32-bit multipliers",
        "TPU-MLIR developer manual, chapter Quantization",
    ),
    Arithmetic(
        "tpu-mlir-8",
        _with_float_outputs(tpu_mlir.KERNELS_8),
        "the published derivations, 8-bit multipliers",
        "TPU-MLIR developer manual, chapter Quantization",
    ),
    Arithmetic(
        "fixed-point",
        _with_float_outputs(fixed_point.KERNELS),
        "scale alignment as published",
        "D. Corvoysier, Aligning quantization scales, 2023",
    ),
)

ARITHMETICS: Mapping[str, Mapping[str, KernelMaker]] = {
    row.name: row.kernels for row in ALL_ARITHMETICS
}
"""Kernel makers by operator, by arithmetic."""
ArithmeticName = Literal[
    "ort",
    "ort-avx2",
    "litert",
    "litert-xnnpack",
    "tflite-micro",
    "gemmlowp",
    "tpu-mlir",
    "tpu-mlir-8",
    "fixed-point",
]
"""Names of the rows of `ARITHMETICS`, for type checkers. A version may follow, as in ``ort@1.31``."""
_NEWEST_KERNELS = {"ort": ort.KERNELS, "ort-avx2": ort_avx2.KERNELS}


@cache
def get_arithmetic(name: str) -> Arithmetic:
    """Return the row of an arithmetic; after ``@`` may stand a version of ONNX Runtime, as in ``ort@1.31``.

    Raises:
        UsageError: The name or the version is unknown.
    """
    base, at, number = name.partition("@")
    require_choice("arithmetic", base, ARITHMETICS)
    [row] = [row for row in ALL_ARITHMETICS if row.name == base]
    if not at:
        return row
    oldest, newest = (_format_version(v) for v in (ort_versions.OLDEST, ort_versions.NEWEST))
    try:
        version = parse_version(number)
    except ValueError:
        version = (0, 0)
    if not row.is_onnxruntime or ort_versions.find_compared_version(version) != version:
        raise UsageError(
            f"arithmetic {name!r} is unknown; a version, from {oldest} to {newest}, follows "
            f"{' or '.join(_NEWEST_KERNELS)}, as in ort@{newest}",
            "arithmetic",
        )
    kernels = ort_versions.get_kernels_of_version(_NEWEST_KERNELS[base], version)
    return replace(row, name=name, kernels=kernels)


def add_version(name: str) -> str:
    """The name with the version of ONNX Runtime that it stands for: ``ort`` becomes ``ort@1.32``.

    Other arithmetics keep their name.
    """
    if "@" in name or not get_arithmetic(name).is_onnxruntime:
        return name
    return f"{name}@{_format_version(ort_versions.find_compared_version())}"


def _format_version(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def get_kernels(name: str) -> Mapping[str, KernelMaker]:
    """Return the kernel makers of the arithmetic of that name.

    Raises:
        UsageError: The name is unknown.
    """
    if not isinstance(name, str):
        require_choice("arithmetic", name, ARITHMETICS)
    return get_arithmetic(name).kernels
