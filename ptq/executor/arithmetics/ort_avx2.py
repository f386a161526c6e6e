"""How does ONNX Runtime's CPU provider compute in 8 bits on a processor without VNNI?

As `ort`, but for products of uint8 activations with int8 weights, whose pairs saturate in int16:

    acc = Σ sat16(a[2k] · b[2k] + a[2k+1] · b[2k+1]) − za · Σ b − zb · Σ a + K · za · zb + bias

on raw a and b, in QLinearConv, QLinearMatMul and QGemm. K runs over a window's positions and, fastest, over the
channels of a group; padding holds za. Convolutions with one input and one output channel a group, int8
activations and uint8 weights sum exactly; but int8 activations between quantizers are moved to uint8 first, and
saturate.

Source: ONNX Runtime 1.31.1 run on an emulated Haswell and on an AMD EPYC (AVX2, no VNNI). The session option
``session.x64quantprecision=1`` or weights in uint8 avoid it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import FloatArray
from ptq.executor.arithmetics import linear_raw, ort
from ptq.executor.arithmetics.node_site import Kernel, Maker, Site, activation, constant, weight
from ptq.kernels.im2col import whole_product
from ptq.kernels.int16_saturation import excess, saturable


def _saturates(site: Site) -> bool:
    """Whether the products of the site are of uint8 by int8, and large enough for some input."""
    if activation(site).qtype.signed or not weight(site).qtype.signed:
        return False
    w = constant(site, 1)
    if w is None or site.op != "Conv":
        return True
    group = int(site.attrs.get("group", 1))
    # one input and one output channel a group, even where there is but one group
    depthwise = w.shape[-1] == 1 and len(w) == group
    return not depthwise and bool(saturable(w.reshape(len(w), -1).T).any())


def _product(site: Site) -> linear_raw.Prepare:
    a_zero = int(activation(site).zero_point)

    def prepare(b: NDArray[Any], zeros: linear_raw.Int64) -> linear_raw.Multiply:
        of_b = b.astype(np.int64).sum(0) - len(b) * zeros

        def multiply(rows: NDArray[Any]) -> linear_raw.Int64:
            raw: linear_raw.Int64 = whole_product(rows, b) - excess(rows, b) - a_zero * of_b
            if zeros.any():
                raw = raw - rows.sum(1, dtype=np.int64)[:, None] * zeros
            return raw

        return multiply

    return prepare


def _finish(site: Site, x_scale: FloatArray) -> linear_raw.Whole:
    return linear_raw.in_int32(ort.product_finish(site, x_scale))


def _conv(site: Site) -> Kernel:
    if not _saturates(site):
        return ort.KERNELS["Conv"](site)
    x = activation(site)
    return linear_raw.conv(
        site,
        _product(site),
        _finish(site, x.scale),
        linear_raw.bias(site),
        fill=int(x.zero_point),
    )


def _gemm(site: Site) -> Kernel:
    if not _saturates(site):
        return ort.KERNELS["Gemm"](site)
    scale = np.float32(site.attrs.get("alpha", 1.0)) * activation(site).scale
    return linear_raw.gemm(site, _product(site), _finish(site, scale), linear_raw.bias(site))


def _matmul(site: Site) -> Kernel:
    if not _saturates(site):
        return ort.KERNELS["MatMul"](site)
    return linear_raw.matmul(site, _product(site), _finish(site, activation(site).scale))


KERNELS: Mapping[str, Maker] = {**ort.KERNELS, "Conv": _conv, "Gemm": _gemm, "MatMul": _matmul}
