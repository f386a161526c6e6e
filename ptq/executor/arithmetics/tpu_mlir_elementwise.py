"""TPU-MLIR's elementwise operators and average pools in 8 bits.

With S the scales, Z the zero points, and ratio = Sx / Sy:

    Add, symmetric    q = (qa·Ma + qb·Mb)_i16 >> rshift      one rshift, 8-bit Ma, Mb of Sa / Sy, Sb / Sy
    Add, asymmetric   q = round((Sa(qa − Za) + Sb(qb − Zb)) · (1 / Sy) + Zy)                    in float32
    Mul               q = ((qa − Za)(qb − Zb) · M >> rshift) + Zy       derived as Conv; the manual has none
    AveragePool       q = round(Scale · Σx + Offset)                                           in float32
                      Scale = Sx / (Sy·k),  Offset = Zy − ratio·Zx
    LeakyRelu         x ≥ Zx: (x − Zx) + Zy
                      below:  (M_i8 (x − Zx) >> rshift) + Zy                 M / 2^rshift = alpha · ratio
    PRelu             x ≥ Zx: (x − Zx) + Zy
                      below:  (qα·M_i8 (x − Zx) >> rshift) + Zy              M / 2^rshift = Sα · ratio
    Requantize        q = ((x − Zx) · M >> rshift) + Zy
    Relu, Clip        the same, clamped

BackwardCalibration makes ratio 1 in LeakyRelu and PRelu; with another ratio the upper branch is that of Requantize.
The manual subtracts Offset in AveragePool and splits at q ≥ 0 in LeakyRelu. Both are slips (derived in the tests).

Two products of an int8 with an 8-bit multiplier stay within 2 · 128 · 127 < 2^15: an int16 holds them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.rounding import round_half_away
from ptq.core.types import QuantParams
from ptq.executor.arithmetics import unary_functions
from ptq.executor.arithmetics.activation_clamp import with_clamp
from ptq.executor.arithmetics.data_movement import pool_window
from ptq.executor.arithmetics.litert_elementwise import (
    make_binary_table_kernel,
    make_unary_table_kernel,
)
from ptq.executor.arithmetics.node_site import (
    Inputs,
    Kernel,
    KernelMaker,
    Site,
    compute_scale_ratio,
    get_activation_qparams,
    get_output_bounds,
    get_output_qparams,
    require_input,
)
from ptq.kernels.multiplier_shift import Int64, shift_right, to_mantissa_and_shift
from ptq.kernels.pool import compute_window_sums
from ptq.kernels.window import build_window_axes

_MULTIPLIER_BITS = 7
"""Bits of an 8-bit multiplier without its sign."""


def multiply_shift_function(real: float, bits: int) -> Callable[[Int64], Int64]:
    """Return the function x · M >> rshift with M / 2^rshift ≈ real, of either sign; 1 is exact."""
    m, rshift = to_mantissa_and_shift(abs(real), bits)
    signed = int(np.sign(real)) * m
    return lambda x: shift_right(x * signed, rshift)


def compute_common_shift_multipliers(reals: tuple[float, float]) -> tuple[tuple[int, int], int]:
    """Return 8-bit multipliers of two factors, and their one right shift, set by the larger factor."""
    rshift = int(to_mantissa_and_shift(max(reals), _MULTIPLIER_BITS)[1])
    first, second = (int(np.floor(np.ldexp(real, rshift) + 0.5)) for real in reals)
    return (first, second), rshift


def _is_symmetric(params: QuantParams) -> bool:
    return params.qtype.signed and int(params.zero_point) == 0


def _make_sum(site: Site, *, sign: int) -> Kernel:
    a, b, y = (
        get_activation_qparams(site, 0),
        get_activation_qparams(site, 1),
        get_output_qparams(site),
    )
    if all(map(_is_symmetric, (a, b, y))):
        ratios = (float(a.scale) / float(y.scale), float(b.scale) / float(y.scale))
        (of_a, of_b), rshift = compute_common_shift_multipliers(ratios)
        return make_binary_table_kernel(
            site, lambda qa, qb: shift_right(qa * of_a + sign * qb * of_b, rshift)
        )
    inverse, zero_point = np.float32(1) / y.scale, np.float32(y.zero_point)

    def dequantized(qa: Int64, qb: Int64) -> NDArray[Any]:
        total = qa.astype(np.float32) * a.scale + np.float32(sign) * qb.astype(np.float32) * b.scale
        return (round_half_away(total * inverse + zero_point) - zero_point).astype(np.int64)

    return make_binary_table_kernel(site, dequantized)


def _make_mul(site: Site, *, bits: int) -> Kernel:
    product = float(get_activation_qparams(site, 0).scale) * float(
        get_activation_qparams(site, 1).scale
    )
    by = multiply_shift_function(product / float(get_output_qparams(site).scale), bits)
    return make_binary_table_kernel(site, lambda qa, qb: by(qa * qb))


def _make_requantize(site: Site, *, bits: int) -> Kernel:
    return make_unary_table_kernel(site, multiply_shift_function(compute_scale_ratio(site), bits))


def _make_clip(site: Site, *, bits: int) -> Kernel:
    return _make_requantize(with_clamp(site), bits=bits)


def _make_leaky_relu(site: Site, *, bits: int) -> Kernel:
    alpha = float(np.float32(site.attrs.get("alpha", 0.01)))
    above, below = (
        multiply_shift_function(compute_scale_ratio(site), bits),
        multiply_shift_function(alpha * compute_scale_ratio(site), _MULTIPLIER_BITS),
    )
    return make_unary_table_kernel(site, lambda q: np.where(q >= 0, above(q), below(q)))


def _make_prelu(site: Site, *, bits: int) -> Kernel:
    above = multiply_shift_function(compute_scale_ratio(site), bits)
    below = multiply_shift_function(
        float(get_activation_qparams(site, 1).scale) * compute_scale_ratio(site), _MULTIPLIER_BITS
    )
    return make_binary_table_kernel(
        site, lambda q, slope: np.where(q >= 0, above(q), below(q * slope))
    )


def average_factors(x: QuantParams, y: QuantParams, k: Any) -> tuple[NDArray[Any], np.float32]:
    """Return Scale_f32 and Offset_f32 of an average of k values; the offset is added."""
    ratio = float(x.scale) / float(y.scale)
    scale = np.asarray(ratio / np.asarray(k, np.float64), np.float32)
    return scale, np.float32(float(y.zero_point) - ratio * float(x.zero_point))


def _requantize_average(site: Site, sums: NDArray[Any], k: Any) -> NDArray[Any]:
    y, (lo, hi) = get_output_qparams(site), get_output_bounds(site)
    scale, offset = average_factors(get_activation_qparams(site), y, k)
    real = scale * sums.astype(np.float32) + offset
    averaged: NDArray[Any] = np.clip(round_half_away(real), lo, hi).astype(y.qtype.dtype)
    return averaged


def _make_average_pool(site: Site) -> Kernel:
    window, zero_point = pool_window(site), int(get_activation_qparams(site).zero_point)
    counted = bool(site.attrs.get("count_include_pad", 0))

    def kernel(inputs: Inputs) -> NDArray[Any]:
        q = require_input(site, inputs, 0)
        axes = build_window_axes(q.shape[1:-1], **window)
        sums, k = compute_window_sums(q, axes, count_include_pad=counted)
        if counted:
            inside = compute_window_sums(q[:1, ..., :1], axes, count_include_pad=False)[1]
            sums = sums + zero_point * (k - inside)
        return _requantize_average(site, sums, k)

    return kernel


def _make_global_average_pool(site: Site) -> Kernel:
    def kernel(inputs: Inputs) -> NDArray[Any]:
        q = require_input(site, inputs, 0)
        axes = tuple(range(1, q.ndim - 1))
        k = int(np.prod(q.shape[1:-1]))
        return _requantize_average(site, q.sum(axis=axes, keepdims=True, dtype=np.int64), k)

    return kernel


def list_elementwise_makers(bits: int) -> Mapping[str, KernelMaker]:
    """Return the makers of these operators.

    Args:
        bits: Bits of the multipliers, where the manual does not fix them.
    """
    return {
        **unary_functions.TPU_MLIR,
        "Add": partial(_make_sum, sign=1),
        "AveragePool": _make_average_pool,
        "Clip": partial(_make_clip, bits=bits),
        "GlobalAveragePool": _make_global_average_pool,
        "LeakyRelu": partial(_make_leaky_relu, bits=bits),
        "Mul": partial(_make_mul, bits=bits),
        "PRelu": partial(_make_prelu, bits=bits),
        "Relu": partial(_make_clip, bits=bits),
        "Requantize": partial(_make_requantize, bits=bits),
        "Sub": partial(_make_sum, sign=-1),
    }
