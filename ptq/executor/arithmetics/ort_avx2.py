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
from ptq.model.weights.matrix_layout import is_single_channel, view_columns


def _can_saturate(site: Site) -> bool:
    """Return whether the products of the site are uint8 by int8, and large enough for some input."""
    if get_constant_input(site, 1) is None:
        return _has_unsigned_by_signed_products(site)
    return bool(find_saturable_channels(site).any())


def find_saturable_channels(site: Site) -> NDArray[np.bool_]:
    """Return which output channels of a constant weight have a pair whose products can leave int16."""
    columns = view_weight_columns(site)
    if not _has_unsigned_by_signed_products(site) or _has_separate_channels(site):
        return np.zeros(columns.shape[-1], np.bool_)
    return np.asarray(find_saturable_pairs(columns).any(axis=0))


def view_weight_columns(site: Site) -> NDArray[Any]:
    """Return a constant weight as a matrix: a column holds those of one output channel, in the order of sums."""
    w = linear.get_constant_weight(site)
    if site.op == "Conv":
        return w.reshape(len(w), -1).T
    columns = view_columns(w, site.attrs)
    return np.concatenate([*columns.reshape(-1, *columns.shape[-2:])], -1)


def _has_unsigned_by_signed_products(site: Site) -> bool:
    return not get_activation_qparams(site).qtype.signed and get_weight_qparams(site).qtype.signed


def _has_separate_channels(site: Site) -> bool:
    w, group = linear.get_constant_weight(site), int(site.attrs.get("group", 1))
    return site.op == "Conv" and is_single_channel((len(w), w.shape[-1]), group)


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
