"""LiteRT's PRelu, HardSwish and LpNormalization in 8 bits.

    PRelu            x ≥ zx: zo + MBQM(x − zx, sx / so);  below: zo + MBQM((x − zx)(a − za), (sx · sa) / so)
    HardSwish        int16: v = (x − zx) · 2^7;  r = relu6(x + 3) / 6 as Q0.15 from v by sx / 128 / (3 / 32768)
                     q = zo + RDPOT(r · v', −e),  v' = v · m,  (m, e) of sx / 128 / so
    LpNormalization  q = MBQM(x − zx, m, s + 7) with (m, s) = 1 / sqrt(Σ (x − zx)²)            output 1/128, 0

Multipliers of PRelu and HardSwish are computed in float32. LpNormalization is LiteRT's L2_NORMALIZATION, which runs
along the last axis.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.core.types import FloatArray
from ptq.executor.arithmetics.litert_elementwise import (
    make_binary_table_kernel,
    make_unary_table_kernel,
    require_output,
    saturate_to_output,
)
from ptq.executor.arithmetics.node_site import (
    Inputs,
    Kernel,
    KernelMaker,
    Site,
    get_activation_qparams,
    get_output_qparams,
    require_input,
)
from ptq.kernels.fixed_point import (
    INT16_MAX,
    Int64,
    divide_by_power_of_two,
    inverse_sqrt,
    multiply,
    quantize_multiplier,
    rescale,
)


def _make_prelu(site: Site) -> Kernel:
    x, slope, y = (
        get_activation_qparams(site, 0),
        get_activation_qparams(site, 1),
        get_output_qparams(site),
    )
    return make_prelu_kernel(site, x.scale / y.scale, (x.scale * slope.scale) / y.scale)


def make_prelu_kernel(
    site: Site, identity: float | FloatArray, below: float | FloatArray
) -> Kernel:
    """Return the kernel of PRELU with the ratios sx / so and sx · sa / so."""
    return make_binary_table_kernel(
        site, lambda q, a: np.where(q >= 0, rescale(q, identity), rescale(q * a, below))
    )


def _saturate_int16(x: Int64) -> Int64:
    return np.clip(x, -(2**15), INT16_MAX)


def _to_int16_multiplier(real: FloatArray) -> tuple[int, int]:
    """Return a multiplier in Q0.15 and its exponent."""
    multiplier, exponent = quantize_multiplier(real)
    return min((int(multiplier) + (1 << 15)) >> 16, INT16_MAX), int(exponent)


def _multiply_high_16(a: Int64, b: int) -> Int64:
    """Return the high half of the doubled product of int16, ties upwards."""
    return (a * b + (1 << 14)) >> 15


def _shift_right_16(x: Int64, exponent: int) -> Int64:
    """Return x / 2^exponent as `divide_by_power_of_two` does, with an int16 mask of the remainder.

    From 2^16 on that mask is −1, and the result is the sign of x, with +1 for zero.
    """
    return divide_by_power_of_two(x, exponent) if exponent < 16 else np.where(x < 0, -1, 1)


def _make_hard_swish(site: Site) -> Kernel:
    x, y = get_activation_qparams(site), get_output_qparams(site)
    fine = x.scale / np.float32(128)
    out, exponent = _to_int16_multiplier(fine / y.scale)
    relu, shift = _to_int16_multiplier(fine / np.float32(3 / 32768))
    if exponent > 0:
        raise UnsupportedError(
            f"HardSwish in LiteRT cannot rescale by {fine / y.scale}; give the output a wider range"
        )

    def function(q: Int64) -> Int64:
        value = q << 7
        relued = _saturate_int16(value << (shift - 1)) if shift > 0 else value
        relued = _multiply_high_16(relued, relu)
        relued = _saturate_int16(relued << 1) if shift > 0 else _shift_right_16(relued, -shift)
        relued = (relued + (1 << 15)) >> 1
        product = relued * _multiply_high_16(value, out)
        truncated = np.sign(product) * (np.abs(product) >> 15)
        return _shift_right_16(truncated, -exponent)

    return make_unary_table_kernel(site, function)


def _make_lp_normalization(site: Site) -> Kernel:
    if site.attrs.get("p", 2) != 2:
        raise UnsupportedError("LpNormalization in LiteRT has p = 2; leave the node float")
    axis = int(site.attrs.get("axis", -1))
    zero_point, y = int(get_activation_qparams(site).zero_point), get_output_qparams(site)
    require_output(site, 1 / 128, (y.qtype.lo + y.qtype.hi + 1) // 2)

    def kernel(inputs: Inputs) -> NDArray[Any]:
        centred = require_input(site, inputs, 0).astype(np.int64) - zero_point
        multiplier, shift = inverse_sqrt((centred * centred).sum(axis=axis, keepdims=True))
        return saturate_to_output(site, multiply(centred, multiplier, shift + 7))

    return kernel


KERNELS: Mapping[str, KernelMaker] = {
    "HardSwish": _make_hard_swish,
    "LpNormalization": _make_lp_normalization,
    "PRelu": _make_prelu,
}
