"""How each system of integer arithmetic computes each operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ptq.core.errors import UsageError
from ptq.executor.arithmetics import (
    fixed_point,
    gemmlowp,
    linear,
    litert,
    ort,
    ort_avx2,
    tflite_micro,
    tpu_mlir,
)
from ptq.executor.arithmetics.node_site import (
    Kernel,
    KernelMaker,
    Site,
    activation_qparams,
    weight_qparams,
)
from ptq.kernels.requantizer import Requantizer


@dataclass(frozen=True, eq=False)
class Arithmetic:
    """One row.

    Attributes:
        name: As ``--arithmetic`` takes it.
        kernels: What prepares the kernel of each operator; an operator that is missing cannot be run.
        equals: Whose bytes it gives, or how far it is from being tied to a runtime.
        source: Where its rules come from.
        unsigned_pairs: Whether an int8 tensor between a QuantizeLinear and its one DequantizeLinear is
            computed in uint8, 128 more, as ONNX Runtime does on x86: sums with a zero point round otherwise.
    """

    name: str
    kernels: Mapping[str, KernelMaker]
    reference: str
    source: str
    computes_int8_as_uint8: bool = False


def _with_float_outputs(kernels: Mapping[str, KernelMaker]) -> Mapping[str, KernelMaker]:
    """The kernels with products whose output stays real, which only ONNX Runtime has: the exact sum, scaled."""

    def either(op: str, core: Callable[[Site, Requantizer], Kernel]) -> KernelMaker:
        def make(site: Site) -> Kernel:
            if site.outputs[0] is not None:
                return kernels[op](site)
            alpha = np.float32(site.attrs.get("alpha", 1.0))
            scale = np.asarray(
                (alpha * activation_qparams(site).scale) * weight_qparams(site).scale
            )
            return core(site, linear.float_rescaler(scale))

        return make

    return {
        **kernels,
        "Gemm": either("Gemm", linear.gemm),
        "MatMul": either("MatMul", linear.matmul),
    }


ALL_ARITHMETICS: tuple[Arithmetic, ...] = (
    Arithmetic(
        "ort",
        ort.KERNELS,
        "ONNX Runtime 1.31.1 on x86-64 with VNNI, bit for bit",
        "experiments with its QLinear kernels",
        computes_int8_as_uint8=True,
    ),
    Arithmetic(
        "ort-avx2",
        ort_avx2.KERNELS,
        "ONNX Runtime 1.31.1 on x86-64 with AVX2 and no VNNI, bit for bit",
        "experiments with its QLinear kernels on an emulated Haswell and on an AMD EPYC without VNNI",
        computes_int8_as_uint8=True,
    ),
    Arithmetic(
        "litert",
        _with_float_outputs(litert.KERNELS),
        "LiteRT 2.3.0's reference kernels, bit for bit",
        "LiteRT 8-bit quantization specification; experiments",
    ),
    Arithmetic(
        "tflite-micro",
        _with_float_outputs(tflite_micro.KERNELS),
        "tflite-micro 0.dev20261023182759, bit for bit",
        "experiments, where it differs from LiteRT",
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

INT8_AS_UINT8 = frozenset(row.name for row in ALL_ARITHMETICS if row.computes_int8_as_uint8)
ARITHMETICS: Mapping[str, Mapping[str, KernelMaker]] = {
    row.name: row.kernels for row in ALL_ARITHMETICS
}
"""Kernels by operator, by arithmetic; a pair that is missing cannot be run."""


def kernels_of_arithmetic(name: str) -> Mapping[str, KernelMaker]:
    """The kernels of the arithmetic of that name.

    Raises:
        UsageError: There is none.
    """
    if name not in ARITHMETICS:
        raise UsageError(f"arithmetic {name!r} is unknown; choose one of {', '.join(ARITHMETICS)}")
    return ARITHMETICS[name]
