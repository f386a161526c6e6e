"""gemmlowp's uint8 scheme: both operands are uint8, each with its own zero point.

With rows q1 (M, N) and columns q2 (N, P), the sum of Jacob et al. 2018, eq. 4, is factored (eqs. 7–9). Its core then
contains no zero point and needs no subtraction:

    Σ_j (q1 − Z1)(q2 − Z2) = N·Z1·Z2 − Z1·a2 − Z2·a1 + Σ_j q1·q2,     a1 = Σ_j q1,   a2 = Σ_j q2

a2, of constant weights, and N·Z1·Z2 are computed in advance. Symmetric weights have Z2 = 0, so the term with a1
vanishes. Then come the bias, S_bias = S1·S2 and Z_bias = 0 (eq. 11), and the output pipeline:

    OutputStageBiasAddition → OutputStageScaleInt32ByFixedPointAndExponent → clamp → saturating cast
    q3 = Z3 + RDPOT(SRDHM(acc · 2^max(e, 0), m), max(−e, 0)),      M = S1·S2/S3 = m · 2^(e−31), in float64

With e ≤ 0 that is OutputStageQuantizeDownInt32ByFixedPoint. e > 0, M of 1 or more, is allowed: that M lies in (0, 1)
is an observation, not a law. An accumulator that overflows in the left shift saturates, as its output would.

The logistic function is computed in fixed point too (`fixed_point_functions`). Other operators without a matrix
product are those of `litert` on uint8, of the same primitives.

Source: Jacob et al. 2018, sections 2.2–2.4; gemmlowp, doc/quantization.md and public/output_stages.h.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.executor.arithmetics import fixed_point_functions, linear, linear_raw, litert
from ptq.executor.arithmetics.litert_requantizer import make_gemmlowp_requantizer
from ptq.executor.arithmetics.node_site import (
    Kernel,
    KernelMaker,
    Site,
    compute_product_scale_ratio,
    get_activation_qparams,
)
from ptq.kernels.im2col import multiply_exactly


def make_factored_product_preparer(z1: int) -> linear_raw.ProductPreparer:
    """Return what prepares the factored product: it computes the terms of q2 alone in advance."""

    def prepare(q2: NDArray[Any], z2: linear_raw.Int64) -> linear_raw.PreparedProduct:
        a2 = q2.sum(0, dtype=np.int64)
        constant_terms = len(q2) * z1 * z2 - z1 * a2

        def multiply(q1: NDArray[Any]) -> linear_raw.Int64:
            acc: linear_raw.Int64 = constant_terms + multiply_exactly(q1, q2)
            if np.any(z2):
                acc = acc - z2 * q1.sum(1, dtype=np.int64)[:, None]
            return acc

        return multiply

    return prepare


def _make_output_requantizer(site: Site) -> linear_raw.AllChannelsRequantizer:
    return linear_raw.with_int32_wraparound(
        make_gemmlowp_requantizer(site, compute_product_scale_ratio(site))
    )


def _make_conv(site: Site) -> Kernel:
    z1 = int(get_activation_qparams(site).zero_point)
    return linear_raw.make_raw_conv_kernel(
        site,
        make_factored_product_preparer(z1),
        _make_output_requantizer(site),
        linear.get_constant_bias(site),
        fill=z1,
    )


def _make_gemm(site: Site) -> Kernel:
    if site.attrs.get("alpha", 1.0) != 1.0:
        raise UnsupportedError("gemmlowp has no alpha; fold Gemm's into B and C")
    z1 = int(get_activation_qparams(site).zero_point)
    return linear_raw.make_raw_gemm_kernel(
        site,
        make_factored_product_preparer(z1),
        _make_output_requantizer(site),
        linear.get_constant_bias(site),
    )


def _make_matmul(site: Site) -> Kernel:
    return linear_raw.make_raw_matmul_kernel(
        site,
        make_factored_product_preparer(int(get_activation_qparams(site).zero_point)),
        _make_output_requantizer(site),
    )


KERNELS: Mapping[str, KernelMaker] = {
    **litert.KERNELS,
    "Conv": _make_conv,
    "Gemm": _make_gemm,
    "MatMul": _make_matmul,
    "Sigmoid": fixed_point_functions.make_sigmoid_kernel,
}
