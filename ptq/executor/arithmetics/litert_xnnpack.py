"""LiteRT's default kernels on processors: XNNPACK's for what it takes, else those of the arithmetic ``litert``.

    Conv, ConvTranspose, Gemm,  q = zo + rne(float32(acc) · ((sx · sw[c]) / so))                      in float32
    MatMul by a constant matrix, or by a tensor of zero point 0
    Mul                         q = zo + rne(float32((a − za)(b − zb)) · ((sa · sb) / so))            in float32
    Mean                        q = rne(float32(Σx) · m + (zo − n · zx · m)),   m = (sx / so) · (1 / n)   in float32
    Softmax                     q = −128 + ⌊e · (1 / (Σ e · so)) + 1/2⌋,   e = exp(−sx · β · (max − x))  in float32
    LogSoftmax                  q = 127 + rne((sx · x − (sx · max + log Σ exp)) / so)                 in float32
    Add, Sub                    q = zo + floor(((a − za) · ma ± (b − zb) · mb + 2^(s−1)) / 2^s),
                                ma = rne(sa / so · 2^s),   s = 20 − floor(log2(max(sa, sb) / so))
    Requantize, LeakyRelu       q = zo + ((zx − x) · 2^7 · m + 2^14) >> 15,   m = rne(−256 · sx / so)
                                LeakyRelu below zero: m times alpha
    Resize linear               weights in 1/2048 of a pixel, one rounding upwards of 2^22
    QuantizeLinear              q = zo + rne(r · (1 / so))                                            in float32

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
from ptq.executor.arithmetics import linear, litert, litert_wide, litert_wide_functions, ort
from ptq.executor.arithmetics.legacy_softmax import softmax_over_trailing_axes
from ptq.executor.arithmetics.litert_elementwise import (
    binary_table_kernel,
    require_output,
    require_same_scale,
    saturate_to_output,
    unary_table_kernel,
)
from ptq.executor.arithmetics.litert_image import image_sampler
from ptq.executor.arithmetics.node_site import (
    Inputs,
    Kernel,
    KernelMaker,
    Site,
    activation_qparams,
    constant_input,
    output_bounds,
    output_qparams,
    reduced_axes,
    require_input,
)
from ptq.kernels.axis_sums import axis_sums
from ptq.kernels.fixed_point import Int64
from ptq.kernels.resize import xnnpack_bilinear

_SUM_RATIOS = (2.0**-10, 2.0**8)
_PRODUCT_RATIOS = (2.0**-16, 2.0**8)
_RATIOS = (2.0**-8, 2.0**7)


def _conv(site: Site) -> Kernel:
    return linear.conv(site, ort.product_requantizer(site, activation_qparams(site).scale))


def _conv_transpose(site: Site) -> Kernel:
    return linear.conv_transpose(
        site, ort.product_requantizer(site, activation_qparams(site).scale)
    )


def _gemm(site: Site) -> Kernel:
    return linear.gemm(site, ort.product_requantizer(site, activation_qparams(site).scale))


def _matmul(site: Site) -> Kernel:
    right = constant_input(site, 1)
    if right is None or right.ndim != 2:
        other = activation_qparams(site, 1)
        if other.zero_point != other.qtype.lo + 128:  # that is 0 in int8
            return litert.KERNELS["MatMul"](site)
    return linear.matmul(site, ort.product_requantizer(site, activation_qparams(site).scale))


def _is_within(ratio: float | FloatArray, bounds: tuple[float, float]) -> bool:
    return bounds[0] <= float(ratio) < bounds[1]


def _mul(site: Site) -> Kernel:
    a, b = activation_qparams(site, 0), activation_qparams(site, 1)
    ratio = np.float32(a.scale * b.scale) / output_qparams(site).scale
    if not _is_within(ratio, _PRODUCT_RATIOS):
        return litert.KERNELS["Mul"](site)
    return binary_table_kernel(site, lambda qa, qb: _round_product(qa * qb, ratio))


def _round_product(acc: Int64, ratio: FloatArray) -> NDArray[np.float32]:
    value: NDArray[np.float32] = np.rint(acc.astype(np.float32) * np.float32(ratio))
    return value


def _sum(sign: int) -> KernelMaker:
    def make(site: Site) -> Kernel:
        so = output_qparams(site).scale
        a, b = (activation_qparams(site, i).scale / so for i in (0, 1))
        largest = np.maximum(a, b)
        if not _is_within(largest, _SUM_RATIOS):
            return litert.KERNELS["Add" if sign > 0 else "Sub"](site)
        shift = 20 - (int(np.frexp(largest)[1]) - 1)
        ma, mb = (int(np.rint(np.ldexp(np.float32(r), shift))) for r in (a, b))

        def total(qa: Int64, qb: Int64) -> Int64:
            return (qa * ma + sign * qb * mb + (1 << (shift - 1))) >> shift

        return binary_table_kernel(site, total)

    return make


def _fixed_factor(ratio: float | FloatArray) -> int:
    return int(np.rint(np.float32(-256.0) * np.float32(ratio)))


def _scale_by(q: Int64, factor: int) -> Int64:
    """The rescaling of q = x − zx by −factor / 256, with one rounding upwards."""
    return ((-q << 7) * factor + (1 << 14)) >> 15


def _requantize(site: Site) -> Kernel:
    ratio = activation_qparams(site).scale / output_qparams(site).scale
    if not _is_within(ratio, _RATIOS):
        return litert.KERNELS["Requantize"](site)
    return unary_table_kernel(site, lambda q: _scale_by(q, _fixed_factor(ratio)))


def _leaky_relu(site: Site) -> Kernel:
    ratio = activation_qparams(site).scale / output_qparams(site).scale
    below = ratio * np.float32(site.attrs.get("alpha", 0.01))
    if not _is_within(ratio, _RATIOS) or not _is_within(np.abs(below), _RATIOS):
        return litert.KERNELS["LeakyRelu"](site)
    factors = _fixed_factor(ratio), _fixed_factor(below)
    return unary_table_kernel(
        site, lambda q: np.where(q >= 0, _scale_by(q, factors[0]), _scale_by(q, factors[1]))
    )


def _mean_kernel(site: Site, total: NDArray[np.int64], count: int) -> IntArray:
    x, y = activation_qparams(site), output_qparams(site)
    n = np.float32(max(count, 1))
    factor = np.float32(x.scale / y.scale) * (np.float32(1) / n)
    offset = np.float32(y.zero_point) - np.float32(n * np.float32(x.zero_point)) * factor
    value = np.rint(total.astype(np.float32) * factor + offset)
    q: IntArray = np.clip(value, *output_bounds(site)).astype(y.qtype.dtype)
    return q


def _reduce_mean(site: Site) -> Kernel:
    output_qparams(site)
    keepdims = bool(site.attrs.get("keepdims", 1))

    def kernel(inputs: Inputs) -> NDArray[Any]:
        axes = reduced_axes(site, inputs)
        return _mean_kernel(site, *axis_sums(require_input(site, inputs, 0), axes, keepdims))

    return kernel


def _global_average_pool(site: Site) -> Kernel:
    output_qparams(site)

    def kernel(inputs: Inputs) -> NDArray[Any]:
        q = require_input(site, inputs, 0)
        return _mean_kernel(site, *axis_sums(q, range(1, q.ndim - 1), keepdims=True))

    return kernel


def _softmax(site: Site) -> Kernel:
    x, y = activation_qparams(site), output_qparams(site)
    require_output(site, 1 / 256, y.qtype.lo)
    axis = int(site.attrs.get("axis", -1))
    powers = _powers(x.scale * np.float32(site.attrs.get("beta", 1.0)))

    def kernel(inputs: Inputs) -> NDArray[Any]:
        q = require_input(site, inputs, 0).astype(np.int64)
        if not q.size:
            return saturate_to_output(site, q)
        power = powers[q.max(axis=axis, keepdims=True) - q]
        inverse = np.float32(1) / (_sum_in_order(power, axis) * y.scale)
        share = (power * inverse).astype(np.float64)
        return saturate_to_output(site, np.floor(share + 0.5))  # no share is negative

    return kernel


def _powers(scale: FloatArray) -> NDArray[np.float32]:
    """exp(−scale · d) for each difference d of 8-bit integers."""
    steps = np.arange(256, dtype=np.float32)
    powers: NDArray[np.float32] = np.exp((-scale * steps).astype(np.float64)).astype(np.float32)
    return powers


def _sum_in_order(values: NDArray[np.float32], axis: int) -> NDArray[np.float32]:
    """The sum in float32 of one value after the other, as LiteRT computes it; numpy's own sum adds pairs."""
    return np.take(np.add.accumulate(values, axis=axis, dtype=np.float32), [-1], axis)


def _log_softmax(site: Site) -> Kernel:
    x, y = activation_qparams(site), output_qparams(site)
    require_output(site, 16 / 256, y.qtype.hi)
    axis = int(site.attrs.get("axis", -1))
    powers = _powers(x.scale)

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


def _quantize(site: Site) -> Kernel:
    y = output_qparams(site)
    return lambda inputs: y.quantize_by_inverse(require_input(site, inputs, 0))


KERNELS: Mapping[str, KernelMaker] = {
    **litert.KERNELS,
    "Add": _sum(1),
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Gemm": _gemm,
    "GlobalAveragePool": _global_average_pool,
    "LeakyRelu": _leaky_relu,
    "LogSoftmax": softmax_over_trailing_axes(_log_softmax),
    "MatMul": _matmul,
    "Mul": _mul,
    "QuantizeLinear": _quantize,
    "ReduceMean": _reduce_mean,
    "Requantize": _requantize,
    "Resize linear": require_same_scale(image_sampler(xnnpack_bilinear)),
    "Softmax": softmax_over_trailing_axes(_softmax),
    "Sub": _sum(-1),
}

WIDE_KERNELS: Mapping[str, KernelMaker] = {
    **litert_wide.KERNELS,
    **litert_wide_functions.OPTIMIZED,
    "QuantizeLinear": _quantize,
}
"""Activations of 16 bits: XNNPACK takes none of them; most of LiteRT's own kernels round as its reference kernels."""
