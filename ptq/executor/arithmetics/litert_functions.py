"""LiteRT's Abs, Div, Gelu and Sqrt in 8 bits.

    Abs    q = zo + MBQM(|x − zx|, sx / so)                                                    in float32
    Div    h = headroom(a − za);  v = SRDHM((a − za) · 2^h, 1 / (b − zb))                      reciprocal in Q0.31
           q = zo + RDPOT(SRDHM(v, m), bits + h − s),   (m, s) = QM(sa / (sb · so))            in float32
    Gelu   q = zo + round((d / 2 · erfc(−d · sqrt(1/2))) · (1 / so)),   d = sx · (x − zx)      in float32
           or by tanh: d / 2 · (1 + tanh(sqrt(2/π) · (d + 0.044715 · d³)))                     in float32
    Sqrt   q = zo + trunc(sqrt(sx · (x − zx)) / so)                                            in float32

LiteRT refuses a divisor of zero and the root of a negative number at run time. Here x / 0 saturates by the sign of x,
0 / 0 is zero, and the root is the lowest integer. C++ does not define Div if it shifts left, or right by 32 bits or
more (a quotient below half an LSB). x86-64 and AArch64 take an exponent modulo 32, and so does this module: zero
becomes 1 LSB, and a fraction of an LSB may become the lowest or highest output.

Error bounds, in LSB before saturation: Abs and Div 1/2 + 2^-8 (the two roundings of MBQM; a quotient that does not
saturate is below 2^8 LSB, with a relative error 2^-26 of the reciprocal; no bound for Div below half an LSB), Gelu
1/2 + 2^-14, Sqrt 1, because it truncates.

Found by experiment with ai-edge-litert 2.3.0, with its reference kernels forced (BUILTIN_REF).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.rounding import round_half_away
from ptq.core.types import FloatArray
from ptq.executor.arithmetics.litert_elementwise import (
    make_binary_table_kernel,
    make_unary_table_kernel,
)
from ptq.executor.arithmetics.node_site import (
    Kernel,
    KernelMaker,
    Site,
    get_activation_qparams,
    get_output_qparams,
)
from ptq.kernels.c_functions import get_c_function
from ptq.kernels.fixed_point import (
    Int64,
    doubling_high_mul,
    leading_zeros,
    quantize_multiplier,
    reciprocal,
    rescale,
)

_SATURATING_LSB = 2**20
"""LSB beyond every output."""


def _make_abs(site: Site) -> Kernel:
    return make_abs_kernel(
        site, get_activation_qparams(site).scale / get_output_qparams(site).scale
    )


def make_abs_kernel(site: Site, ratio: float | FloatArray) -> Kernel:
    """Return the kernel of ABS with the ratio sx / so."""
    return make_unary_table_kernel(site, lambda q: rescale(np.abs(q), ratio))


def _make_sqrt(site: Site) -> Kernel:
    x, y = get_activation_qparams(site), get_output_qparams(site)

    def function(q: Int64) -> NDArray[Any]:
        root = np.sqrt(np.maximum(x.scale * q.astype(np.float32), np.float32(0)))
        return np.where(q >= 0, np.trunc(root / y.scale), -_SATURATING_LSB)

    return make_unary_table_kernel(site, function)


def _make_gelu(site: Site) -> Kernel:
    x, y = get_activation_qparams(site), get_output_qparams(site)
    real = make_float32_gelu(site)

    def function(q: Int64) -> NDArray[Any]:
        return round_half_away(real(x.scale * q.astype(np.float32)) * (np.float32(1) / y.scale))

    return make_unary_table_kernel(site, function)


def make_float32_gelu(site: Site) -> Callable[[FloatArray], FloatArray]:
    """Return LiteRT's GELU of real values."""
    factor = (
        _compute_by_tanh
        if site.attrs.get("approximate", "none") in ("tanh", b"tanh")
        else _compute_by_erfc
    )
    return lambda d: np.float32(0.5) * d * factor(d)


def _compute_by_erfc(d: FloatArray) -> FloatArray:
    return get_c_function("erfcf")(-d * np.float32(np.sqrt(0.5)))


def _compute_by_tanh(d: FloatArray) -> FloatArray:
    cubic = d + np.float32(0.044715) * (d * d * d)
    return np.float32(1) + get_c_function("tanhf")(np.float32(np.sqrt(2 / np.pi)) * cubic)


def _divide_with_masked_shift(x: Int64, exponent: Int64) -> Int64:
    """Return `divide_by_power_of_two` as gemmlowp writes it for int32, with the shifts of x86-64 and AArch64.

    Their shifts take an exponent modulo 64 and 32. Below 0 and above 31, which C++ does not define, the mask is −1.
    """
    mask = ((np.int64(1) << (exponent & 63)) - 1).astype(np.int32).astype(np.int64)
    remainder, threshold = x & mask, (mask >> 1) + (x < 0)
    quotient: Int64 = (x >> (exponent & 31)) + (remainder > threshold)
    return quotient


def _make_div(site: Site) -> Kernel:
    product = get_activation_qparams(site, 1).scale * get_output_qparams(site).scale
    return make_div_kernel(site, get_activation_qparams(site, 0).scale / product)


def make_div_kernel(site: Site, ratio: float | FloatArray) -> Kernel:
    """Return the kernel of DIV with the ratio sa / (sb · so)."""
    multiplier, shift = quantize_multiplier(ratio)

    def quotient(a: Int64, b: Int64) -> Int64:
        a, b = np.where(b < 0, -a, a), np.abs(b)
        inverse, over_one = reciprocal(np.maximum(b, 1), 31)
        headroom = leading_zeros(np.where(a < 0, ~a, a)) - 1
        unscaled = doubling_high_mul(a << headroom, inverse)
        right = over_one + headroom - shift
        lsb = _divide_with_masked_shift(doubling_high_mul(unscaled, multiplier), right)
        return np.where(b == 0, np.sign(a) * _SATURATING_LSB, lsb)

    return make_binary_table_kernel(site, quotient)


KERNELS: Mapping[str, KernelMaker] = {
    "Abs": _make_abs,
    "Div": _make_div,
    "Gelu": _make_gelu,
    "Sqrt": _make_sqrt,
}
