"""TPU-MLIR's 8-bit arithmetic: every real factor is a multiplier and a right shift.

    Scale = M / 2^rshift                       M of 31 bits and its sign, or of 7 (``tpu-mlir-8``)
    Conv, Gemm, MatMul   q = ((Σ (x − Zx)·w + b) · M[c] >> rshift[c]) + Zy,      M / 2^rshift = Sx·Sw[c] / Sy

b is int32 in units of Sx·Sw. −Zx·Σw is part of the accumulator here, and of b_i32 there. Padding holds Zx, so that
it adds nothing. Symmetric quantization is the case Zx = Zy = 0. The shift comes after the product with the whole
accumulator.

The derivations write a plain >>. TPU-MLIR's own inference rounds it to the nearest, ties upwards (its
applyMultiplierAndRShift passes ROUNDING_HALF_UP), and so do we. A float becomes an integer with ties away from zero.
M is the nearest mantissa, as in the manual's 0.1234 = 2119995857 / 2^34. TPU-MLIR's search over shifts up to 30
(get_scale_and_shift) finds coarser ones for small scales.

Source: TPU-MLIR developer manual, chapter Quantization; sophgo/tpu-mlir, lib/Support/MathUtils.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.core.types import IntArray
from ptq.executor.arithmetics import data_movement, linear, quantizers
from ptq.executor.arithmetics.node_site import (
    Kernel,
    KernelMaker,
    Site,
    compute_product_scale_ratio,
    get_output_bounds,
    get_output_qparams,
)
from ptq.executor.arithmetics.tpu_mlir_data_movement import list_data_movement_makers
from ptq.executor.arithmetics.tpu_mlir_elementwise import list_elementwise_makers
from ptq.kernels.multiplier_shift import shift_right, to_mantissa_and_shift
from ptq.kernels.requantizer import Accumulator, Channels, Requantizer


def make_multiplier_shift_requantizer(
    site: Site, real: NDArray[np.float64], bits: int
) -> Requantizer:
    """Return the requantizer Zy + (acc · M >> rshift), clamped.

    ``real`` is one number, or one for each output channel.
    """
    y = get_output_qparams(site)
    zero_point, dtype = int(y.zero_point), y.qtype.dtype
    lo, hi = get_output_bounds(site)
    multiplier, rshift = to_mantissa_and_shift(real, bits)

    def requantize(acc: Accumulator, channels: Channels) -> IntArray:
        by, right = multiplier, rshift
        if multiplier.ndim:
            by, right = multiplier[channels], rshift[channels]
        value = shift_right(acc.astype(np.int64) * by, right)
        q: IntArray = np.clip(value + zero_point, lo, hi).astype(dtype)
        return q

    return requantize


def _make_conv(site: Site, *, bits: int) -> Kernel:
    return linear.make_conv_kernel(
        site, make_multiplier_shift_requantizer(site, compute_product_scale_ratio(site), bits)
    )


def _make_conv_transpose(site: Site, *, bits: int) -> Kernel:
    return linear.make_conv_transpose_kernel(
        site, make_multiplier_shift_requantizer(site, compute_product_scale_ratio(site), bits)
    )


def _make_gemm(site: Site, *, bits: int) -> Kernel:
    if site.attrs.get("alpha", 1.0) != 1.0:
        raise UnsupportedError("InnerProduct has no alpha; fold Gemm's into B and C")
    return linear.make_gemm_kernel(
        site, make_multiplier_shift_requantizer(site, compute_product_scale_ratio(site), bits)
    )


def _make_matmul(site: Site, *, bits: int) -> Kernel:
    return linear.make_matmul_kernel(
        site, make_multiplier_shift_requantizer(site, compute_product_scale_ratio(site), bits)
    )


def make_kernels(bits: int) -> Mapping[str, KernelMaker]:
    """Return the kernel makers of the arithmetic with multipliers of that many bits, without the sign."""
    makers: dict[str, Any] = {
        "Conv": _make_conv,
        "ConvTranspose": _make_conv_transpose,
        "Gemm": _make_gemm,
        "MatMul": _make_matmul,
    }
    return {
        **data_movement.INDEX_OPS,
        **list_data_movement_makers(bits),
        **list_elementwise_makers(bits),
        **{op: partial(maker, bits=bits) for op, maker in makers.items()},
        **quantizers.LITERT,
    }


KERNELS: Mapping[str, KernelMaker] = make_kernels(31)
KERNELS_8: Mapping[str, KernelMaker] = make_kernels(7)
