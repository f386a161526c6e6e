"""ONNX Runtime's QLinear kernels on the CPU, to the bit.

An accumulator becomes an integer by one float32 product, clamped, rounded half to even, with the zero point last:

    s[c] = (sx · sw[c]) / sy        both in float32
    q    = rne(clamp(float32(acc) · s[c], lo − zy, hi − zy)) + zy

A Gemm or MatMul whose output has no scale returns float32(acc) · (sx · sw[c]).

The rules were found by experiment with ONNX Runtime 1.31.1 on x86-64 with VNNI, where u8 × s8 products accumulate
exactly. Its AVX2 kernels without VNNI saturate pairs of them in int16 (`ort_avx2`). Operators without a QLinear
kernel are not in the table: ONNX Runtime computes them in float.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ptq.core.types import FloatArray, IntArray
from ptq.executor.arithmetics import (
    data_movement,
    linear,
    ort_elementwise,
    ort_pool,
    ort_softmax,
    quantizers,
)
from ptq.executor.arithmetics.node_site import (
    Kernel,
    KernelMaker,
    Site,
    get_activation_qparams,
    get_output_bounds,
    get_output_qparams,
    get_weight_qparams,
)
from ptq.kernels.channel_broadcast import apply_per_channel, repeat_channels
from ptq.kernels.requantizer import Accumulator, Channels, Requantizer

# 3 · 2^22. Between 2^23 and 2^24 float32 holds integers only, so that adding this constant rounds half to even. Its
# last byte is zero, so the last byte of the sum is the rounded number modulo 256.
_ROUNDING_ADDEND = np.float32(3 * 2**22)


def make_float32_requantizer(site: Site, scale: FloatArray) -> Requantizer:
    """Return the requantizer of QLinearConv, QLinearMatMul and QGemm: float32 scale, one or one a channel."""
    y = get_output_qparams(site)
    zero_point, dtype = int(y.zero_point), y.qtype.dtype
    if scale.size == 1:
        scale = scale.reshape(())
    every = repeat_channels(scale) if scale.ndim else None
    lo, hi = (np.float32(bound - zero_point) for bound in get_output_bounds(site))
    offset = dtype.type(zero_point)

    def requantize(acc: Accumulator, channels: Channels) -> IntArray:
        value = acc.astype(np.float32, order="C", copy=False)
        if every is not None and value.ndim == 2 and isinstance(channels, slice):
            apply_per_channel(np.multiply, value, every, value)
        else:
            np.multiply(value, scale[channels] if scale.ndim else scale, out=value)
        value.clip(lo, hi, out=value)
        np.add(value, _ROUNDING_ADDEND, out=value)
        q: IntArray = value.view(np.int32).astype(dtype)
        if zero_point:
            np.add(q, offset, out=q)
        return q

    return requantize


def make_product_requantizer(site: Site, x_scale: FloatArray) -> Requantizer:
    """Return the requantizer by sx · sw / sy, or by sx · sw to float if the output has no scale."""
    product: FloatArray = np.asarray(x_scale * get_weight_qparams(site).scale)
    if site.outputs[0] is None:
        return linear.make_float_rescaler(product)
    return make_float32_requantizer(site, np.asarray(product / get_output_qparams(site).scale))


def _make_conv(site: Site) -> Kernel:
    return linear.make_conv_kernel(
        site, make_product_requantizer(site, get_activation_qparams(site).scale)
    )


def _make_gemm(site: Site) -> Kernel:
    """QGemm: alpha multiplies the scale, and so C too."""
    x_scale = np.float32(site.attrs.get("alpha", 1.0)) * get_activation_qparams(site).scale
    return linear.make_gemm_kernel(site, make_product_requantizer(site, x_scale))


def _make_matmul(site: Site) -> Kernel:
    return linear.make_matmul_kernel(
        site, make_product_requantizer(site, get_activation_qparams(site).scale)
    )


def _make_data_movement_maker(maker: KernelMaker) -> KernelMaker:
    """Return the maker of a data movement.

    If the scales differ it is DequantizeLinear, data movement, QuantizeLinear.
    """

    def make(site: Site) -> Kernel:
        kernel = maker(site)
        if not site.inputs or site.inputs[0] is None:
            return kernel
        same = site.inputs[0] == site.outputs[0] and site.clamp is None
        if same:
            return kernel
        requantize = ort_elementwise.requantize(site)
        return lambda inputs: requantize([kernel(inputs)])

    return make


KERNELS: Mapping[str, KernelMaker] = {
    **{
        op: _make_data_movement_maker(maker)
        for op, maker in data_movement.DATA_MOVEMENT_OPS.items()
    },
    **data_movement.INDEX_OPS,
    **ort_elementwise.KERNELS,
    **ort_pool.KERNELS,
    **ort_softmax.KERNELS,
    **quantizers.ORT,
    "Conv": _make_conv,
    "Gemm": _make_gemm,
    "MatMul": _make_matmul,
}
