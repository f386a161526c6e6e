"""ONNX Runtime's QLinear kernels on x86 processors without VNNI.

They equal those of `ort`, except products of uint8 activations with int8 weights. Pairs of these saturate in int16:

    acc = Σ sat16(a[2k] · b[2k] + a[2k+1] · b[2k+1]) − za · Σ b − zb · Σ a + K · za · zb + bias

on raw a and b, in QLinearConv, QLinearMatMul and QGemm. K runs over a window's positions, and fastest over the
channels of a group; padding holds za. Convolutions with one input and one output channel in each group, int8
activations, and uint8 weights sum exactly. But int8 activations between quantizers are shifted to uint8 first, and
saturate.

Source: ONNX Runtime 1.31.1 on an emulated Haswell and on an AMD EPYC (AVX2, no VNNI). The session option
``session.x64quantprecision=1`` or weights in uint8 avoid it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import FloatArray
from ptq.executor.arithmetics import linear, linear_raw, ort
from ptq.executor.arithmetics.node_site import (
    Kernel,
    KernelMaker,
    Site,
    get_activation_qparams,
    get_constant_input,
    get_weight_qparams,
)
from ptq.kernels.im2col import multiply_exactly
from ptq.kernels.int16_saturation import compute_saturation_loss, find_saturable_pairs


def _can_saturate(site: Site) -> bool:
    """Return whether the products of the site are uint8 by int8, and large enough for some input."""
    if get_activation_qparams(site).qtype.signed or not get_weight_qparams(site).qtype.signed:
        return False
    w = get_constant_input(site, 1)
    if w is None or site.op != "Conv":
        return True
    group = int(site.attrs.get("group", 1))
    # One input and one output channel in each group, even if there is only one group.
    depthwise = w.shape[-1] == 1 and len(w) == group
    return not depthwise and bool(find_saturable_pairs(w.reshape(len(w), -1).T).any())


def _make_saturating_preparer(site: Site) -> linear_raw.ProductPreparer:
    a_zero = int(get_activation_qparams(site).zero_point)

    def prepare(b: NDArray[Any], zeros: linear_raw.Int64) -> linear_raw.PreparedProduct:
        of_b = b.astype(np.int64).sum(0) - len(b) * zeros

        def multiply(rows: NDArray[Any]) -> linear_raw.Int64:
            raw: linear_raw.Int64 = (
                multiply_exactly(rows, b) - compute_saturation_loss(rows, b) - a_zero * of_b
            )
            if zeros.any():
                raw = raw - rows.sum(1, dtype=np.int64)[:, None] * zeros
            return raw

        return multiply

    return prepare


def _make_requantizer(site: Site, x_scale: FloatArray) -> linear_raw.AllChannelsRequantizer:
    return linear_raw.with_int32_wraparound(ort.make_product_requantizer(site, x_scale))


def _make_conv(site: Site) -> Kernel:
    if not _can_saturate(site):
        return ort.KERNELS["Conv"](site)
    x = get_activation_qparams(site)
    return linear_raw.make_raw_conv_kernel(
        site,
        _make_saturating_preparer(site),
        _make_requantizer(site, x.scale),
        linear.get_constant_bias(site),
        fill=int(x.zero_point),
    )


def _make_gemm(site: Site) -> Kernel:
    if not _can_saturate(site):
        return ort.KERNELS["Gemm"](site)
    scale = np.float32(site.attrs.get("alpha", 1.0)) * get_activation_qparams(site).scale
    return linear_raw.make_raw_gemm_kernel(
        site,
        _make_saturating_preparer(site),
        _make_requantizer(site, scale),
        linear.get_constant_bias(site),
    )


def _make_matmul(site: Site) -> Kernel:
    if not _can_saturate(site):
        return ort.KERNELS["MatMul"](site)
    return linear_raw.make_raw_matmul_kernel(
        site,
        _make_saturating_preparer(site),
        _make_requantizer(site, get_activation_qparams(site).scale),
    )


KERNELS: Mapping[str, KernelMaker] = {
    **ort.KERNELS,
    "Conv": _make_conv,
    "Gemm": _make_gemm,
    "MatMul": _make_matmul,
}
