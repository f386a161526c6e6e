"""How does LiteRT compute Abs, Div, Gelu and Sqrt in 8 bits?

    Abs    q = zo + MBQM(|x − zx|, sx / so)                                                    in float32
    Div    h = headroom(a − za);  v = SRDHM((a − za) · 2^h, 1 / (b − zb))                      reciprocal in Q0.31
           q = zo + RDPOT(SRDHM(v, m), bits + h − s),   (m, s) = QM(sa / (sb · so))            in float32
    Gelu   q = zo + round((d / 2 · erfc(−d · sqrt(1/2))) · (1 / so)),   d = sx · (x − zx)      in float32
    Sqrt   q = zo + trunc(sqrt(sx · (x − zx)) / so)                                            in float32

LiteRT refuses a divisor of zero and the root of a negative number when it meets one. Here x / 0 saturates by the
sign of x and 0 / 0 is zero; the root is the lowest integer. And where Div shifts right by 32 bits or more, which
is a quotient below half a step, the shift has no meaning in C++: here the quotient is rounded, while LiteRT on
x86-64 gives one step for zero and a saturated output for the rest.

Error bounds, in steps before saturation: Abs and Div 1/2 + 2^-8 (the two roundings of MBQM; a quotient that does
not saturate is below 2^8 steps, with a relative 2^-26 of the reciprocal), Gelu 1/2 + 2^-14, Sqrt 1: it cuts off.

Found by experiment with ai-edge-litert 2.3.0, its reference kernels forced (BUILTIN_REF).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from ptq.arithmetics import functions
from ptq.arithmetics.litert_elementwise import mapped, paired
from ptq.arithmetics.operands import activation, result
from ptq.arithmetics.site import Kernel, Maker, Site
from ptq.kernels.fixedpoint import (
    Int64,
    divide_by_power_of_two,
    doubling_high_mul,
    leading_zeros,
    quantize_multiplier,
    reciprocal,
    rescale,
)
from ptq.kernels.float32 import round_half_away
from ptq.types import FloatArray

_FARTHEST = 2**20
"""Steps beyond every output."""


def _abs(site: Site) -> Kernel:
    return absolute(site, activation(site).scale / result(site).scale)


def absolute(site: Site, ratio: float | FloatArray) -> Kernel:
    """ABS with the ratio sx / so."""
    return mapped(site, lambda q: rescale(np.abs(q), ratio))


def _sqrt(site: Site) -> Kernel:
    x, y = activation(site), result(site)

    def function(q: Int64) -> NDArray[Any]:
        root = np.sqrt(np.maximum(x.scale * q.astype(np.float32), np.float32(0)))
        return np.where(q >= 0, np.trunc(root / y.scale), -_FARTHEST)

    return mapped(site, function)


def _gelu(site: Site) -> Kernel:
    if site.attrs.get("approximate", "none") in ("tanh", b"tanh"):
        return functions.LITERT["Gelu"](site)
    x, y = activation(site), result(site)

    def function(q: Int64) -> NDArray[Any]:
        d = x.scale * q.astype(np.float32)
        tail = scipy.special.erfc((-d * np.float32(np.sqrt(0.5))).astype(np.float64)).astype(
            np.float32
        )
        return round_half_away(np.float32(0.5) * d * tail * (np.float32(1) / y.scale))

    return mapped(site, function)


def _div(site: Site) -> Kernel:
    product = activation(site, 1).scale * result(site).scale
    return divided(site, activation(site, 0).scale / product)


def divided(site: Site, ratio: float | FloatArray) -> Kernel:
    """DIV with the ratio sa / (sb · so)."""
    multiplier, shift = quantize_multiplier(ratio)

    def quotient(a: Int64, b: Int64) -> Int64:
        inverse, over_one = reciprocal(np.maximum(np.abs(b), 1), 31)
        headroom = leading_zeros(np.where(a < 0, ~a, a) | 1) - 1
        unscaled = doubling_high_mul(a << headroom, np.where(b < 0, -inverse, inverse))
        right = over_one + headroom - shift
        scaled = doubling_high_mul(unscaled, multiplier)
        near = divide_by_power_of_two(scaled, np.clip(right, 0, 62))
        # a left shift of LiteRT's is undefined; such a quotient is far beyond every output, or zero
        steps = np.where(right < 0, np.sign(scaled) * _FARTHEST, near)
        return np.where(b == 0, np.sign(a) * _FARTHEST, steps)

    return paired(site, quotient)


KERNELS: Mapping[str, Maker] = {"Abs": _abs, "Div": _div, "Gelu": _gelu, "Sqrt": _sqrt}
