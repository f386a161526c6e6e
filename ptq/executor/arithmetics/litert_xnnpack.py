"""LiteRT's default kernels on processors: XNNPACK's for what it takes, else those of the arithmetic ``litert``.

    Conv, ConvTranspose, Gemm,  q = zo + rne(float32(acc) · ((sx · sw[c]) / so))                      in float32
    MatMul by a constant matrix, or by a tensor of zero point 0
    ConvTranspose, SAME and a kernel below the stride: MBQM as in `litert`, but ties of the right shift go upwards in
                                full groups of 8 channels
    Mean                        q = rne(float32(Σx) · m + (zo − n · zx · m)),   m = (sx / so) · (1 / n)   in float32
    Sum                         the same, m = sx / so
    Softmax                     q = −128 + ⌊e · (1 / (Σ e · so)) + 1/2⌋,   e = exp(−sx · β · (max − x))  in float32
    LogSoftmax                  q = 127 + rne((sx · x − (sx · max + log Σ exp)) / so)                 in float32
    Resize linear               weights in 1/2048 of a pixel, one rounding upwards of 2^22
    QuantizeLinear              q = zo + rne(r · (1 / so))                                            in float32
    the elementwise operators of `litert_xnnpack_elementwise`

rne rounds ties to even. XNNPACK takes an operator only within ranges of its scales; outside them, and for operators
that it does not have on int8, LiteRT runs kernels of its own.

The rules were found by experiment with ai-edge-litert 2.3.0 on x86-64 with AVX512-VNNI.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import FloatArray, IntArray
from ptq.executor.arithmetics import (
    linear,
    litert,
    litert_wide,
    litert_wide_functions,
    litert_xnnpack_elementwise,
    ort,
)
from ptq.executor.arithmetics.legacy_softmax import extend_to_trailing_axes
from ptq.executor.arithmetics.litert_elementwise import (
    require_output,
    require_same_scale,
    saturate_to_output,
)
from ptq.executor.arithmetics.litert_image import make_image_sampler
from ptq.executor.arithmetics.litert_requantizer import make_grouped_requantizer
from ptq.executor.arithmetics.node_site import (
    Inputs,
    Kernel,
    KernelMaker,
    Site,
    compute_product_scale_ratio,
    get_activation_qparams,
    get_constant_input,
    get_output_bounds,
    get_output_qparams,
    get_reduced_axes,
    require_input,
)
from ptq.executor.arithmetics.quantizers import replace_nan
from ptq.kernels.axis_sums import sum_axes
from ptq.kernels.resize import interpolate_like_xnnpack


def _make_conv(site: Site) -> Kernel:
    return linear.make_conv_kernel(
        site, ort.make_product_requantizer(site, get_activation_qparams(site).scale)
    )


def _make_conv_transpose(site: Site) -> Kernel:
    if _is_beyond_xnnpack(site):
        return linear.make_conv_transpose_kernel(
            site, make_grouped_requantizer(site, compute_product_scale_ratio(site))
        )
    return linear.make_conv_transpose_kernel(
        site, ort.make_product_requantizer(site, get_activation_qparams(site).scale)
    )


def _is_beyond_xnnpack(site: Site) -> bool:
    """Whether a TRANSPOSE_CONV has the padding SAME and a kernel smaller than its stride.

    A file has SAME where it fits, as ptq writes it: half of what is cut off stands in front, and the output has one
    stride for each position of the input. ``auto_pad`` says that a file has VALID nevertheless.
    """
    weight, strides = get_constant_input(site, 1), site.attrs.get("strides", ())
    if weight is None or site.attrs.get("auto_pad") == "VALID":
        return False
    zeros = (0,) * len(strides)
    pads = tuple(site.attrs.get("pads", 2 * zeros))
    added = tuple(site.attrs.get("output_padding", zeros))
    rows = zip(
        weight.shape[1:-1], strides, pads[: len(strides)], pads[len(strides) :], added, strict=True
    )
    spans = [(k, s, begin, begin + end - more) for k, s, begin, end, more in rows]
    is_same = all(b == max(cut, 0) // 2 and 0 < k - cut <= s for k, s, b, cut in spans)
    return is_same and any(k < s for k, s, _, _ in spans)


def _make_gemm(site: Site) -> Kernel:
    return linear.make_gemm_kernel(
        site, ort.make_product_requantizer(site, get_activation_qparams(site).scale)
    )


def _make_matmul(site: Site) -> Kernel:
    right = get_constant_input(site, 1)
    if right is None or right.ndim != 2:
        other = get_activation_qparams(site, 1)
        if other.zero_point != other.qtype.lo + 128:  # that is 0 in int8
            return litert.KERNELS["MatMul"](site)
    return linear.make_matmul_kernel(
        site, ort.make_product_requantizer(site, get_activation_qparams(site).scale)
    )


def _scale_sums(site: Site, total: NDArray[np.int64], count: int, divisor: int) -> IntArray:
    """Return sums of ``count`` raw integers each, divided, in integers of the output."""
    x, y = get_activation_qparams(site), get_output_qparams(site)
    factor = np.float32(x.scale / y.scale) * (np.float32(1) / np.float32(divisor))
    zeros = np.float32(np.float32(count) * np.float32(x.zero_point))
    value = np.rint(total.astype(np.float32) * factor + (np.float32(y.zero_point) - zeros * factor))
    q: IntArray = np.clip(value, *get_output_bounds(site)).astype(y.qtype.dtype)
    return q


def _make_reduce(site: Site) -> Kernel:
    """MEAN and SUM."""
    get_output_qparams(site)
    keepdims = bool(site.attrs.get("keepdims", 1))
    is_mean = site.op == "ReduceMean"

    def kernel(inputs: Inputs) -> NDArray[Any]:
        axes = get_reduced_axes(site, inputs)
        total, count = sum_axes(require_input(site, inputs, 0), axes, keepdims)
        elements = max(count, 1)
        return _scale_sums(site, total, elements, elements if is_mean else 1)

    return kernel


def _make_global_average_pool(site: Site) -> Kernel:
    get_output_qparams(site)

    def kernel(inputs: Inputs) -> NDArray[Any]:
        q = require_input(site, inputs, 0)
        total, count = sum_axes(q, range(1, q.ndim - 1), keepdims=True)
        return _scale_sums(site, total, max(count, 1), max(count, 1))

    return kernel


def _make_softmax(site: Site) -> Kernel:
    x, y = get_activation_qparams(site), get_output_qparams(site)
    require_output(site, 1 / 256, y.qtype.lo)
    axis = int(site.attrs.get("axis", -1))
    powers = _compute_powers(x.scale * np.float32(site.attrs.get("beta", 1.0)))

    def kernel(inputs: Inputs) -> NDArray[Any]:
        q = require_input(site, inputs, 0).astype(np.int64)
        if not q.size:
            return saturate_to_output(site, q)
        power = powers[q.max(axis=axis, keepdims=True) - q]
        inverse = np.float32(1) / (_sum_in_order(power, axis) * y.scale)
        share = (power * inverse).astype(np.float64)
        return saturate_to_output(site, np.floor(share + 0.5))  # no share is negative

    return kernel


def _compute_powers(scale: FloatArray) -> NDArray[np.float32]:
    """exp(−scale · d) for each difference d of 8-bit integers."""
    steps = np.arange(256, dtype=np.float32)
    powers: NDArray[np.float32] = np.exp((-scale * steps).astype(np.float64)).astype(np.float32)
    return powers


def _sum_in_order(values: NDArray[np.float32], axis: int) -> NDArray[np.float32]:
    """The sum in float32 of one value after the other, as LiteRT computes it; numpy's own sum adds pairs."""
    return np.take(np.add.accumulate(values, axis=axis, dtype=np.float32), [-1], axis)


def _make_log_softmax(site: Site) -> Kernel:
    x, y = get_activation_qparams(site), get_output_qparams(site)
    require_output(site, 16 / 256, y.qtype.hi)
    axis = int(site.attrs.get("axis", -1))
    powers = _compute_powers(x.scale)

    def kernel(inputs: Inputs) -> NDArray[Any]:
        q = require_input(site, inputs, 0).astype(np.int64)
        if not q.size:
            return saturate_to_output(site, q)
        most = q.max(axis=axis, keepdims=True)
        total = _sum_in_order(powers[most - q], axis)
        logarithm = np.log(total.astype(np.float64)).astype(np.float32)
        highest = x.scale * most.astype(np.float32) + logarithm
        value = np.rint((x.scale * q.astype(np.float32) - highest) / y.scale)
        return saturate_to_output(site, value)

    return kernel


def _make_quantize(site: Site) -> Kernel:
    y = get_output_qparams(site)

    def kernel(inputs: Inputs) -> NDArray[Any]:
        x = require_input(site, inputs, 0)
        with np.errstate(over="ignore", invalid="ignore"):
            return replace_nan(y.quantize_by_inverse(x), x, y.qtype.hi)

    return kernel


KERNELS: Mapping[str, KernelMaker] = {
    **litert.KERNELS,
    **litert_xnnpack_elementwise.KERNELS,
    "Conv": _make_conv,
    "ConvTranspose": _make_conv_transpose,
    "Gemm": _make_gemm,
    "GlobalAveragePool": _make_global_average_pool,
    "LogSoftmax": extend_to_trailing_axes(_make_log_softmax),
    "MatMul": _make_matmul,
    "QuantizeLinear": _make_quantize,
    "ReduceMean": _make_reduce,
    "ReduceSum": _make_reduce,
    "Resize linear": require_same_scale(make_image_sampler(interpolate_like_xnnpack)),
    "Softmax": extend_to_trailing_axes(_make_softmax),
}

WIDE_KERNELS: Mapping[str, KernelMaker] = {
    **litert_wide.KERNELS,
    **litert_wide_functions.OPTIMIZED,
    "QuantizeLinear": _make_quantize,
}
"""Activations of 16 bits: XNNPACK takes none of them; most of LiteRT's own kernels round as its reference kernels."""
