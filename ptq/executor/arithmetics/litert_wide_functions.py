"""LiteRT's functions on int16, to the bit.

    Sigmoid, Tanh   v = x · m / 2^s in units of 1/12288;  3x at a scale within 10^-3 in log2 of 2^-12, and for Tanh
                    6x at 2^-11;  σ between 256 entries at |v|, in 1/2^16;
                    tanh x = 2σ(2x) − 1
    Softmax         d = (x − max) in units of 10/65535;  e = exp in 1/2^15;  1 / Σe;  both from tables of 513 entries
    Abs             |x| · sx / so, with two roundings
    Exp, Gelu       a table of 513 entries

Output scale is 1/2^15 and zero point 0 for the first three.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import FloatArray
from ptq.executor.arithmetics.legacy_softmax import extend_to_trailing_axes
from ptq.executor.arithmetics.litert_elementwise import require_output, saturate_to_output
from ptq.executor.arithmetics.litert_functions import make_float32_gelu
from ptq.executor.arithmetics.node_site import (
    Inputs,
    Kernel,
    KernelMaker,
    Site,
    get_activation_qparams,
    get_output_qparams,
    require_input,
)
from ptq.kernels import fixed_point_int16
from ptq.kernels.fixed_point import Int64, multiply, quantize_multiplier, rescale
from ptq.kernels.interpolated_table import fill_table, interpolate
from ptq.kernels.real_functions import get_real_function

UNIT = 2.0**-15
"""Output scale of functions with a fixed range."""
_UNITS = 3 * 4096
"""Units of 1 in the argument of the table of σ."""
_ENTRIES = 256
_HIGHEST = 2**15 - 1


def _compute_sigmoid_entries() -> NDArray[np.int64]:
    """σ(i / 24) in 1/2^16, less half the error that interpolation has in the middle of the step; the last is 1."""
    x, half = np.arange(_ENTRIES) / 24.0, 1 / 48.0
    here, middle, after = (65536.0 / (1.0 + np.exp(-p)) for p in (x, x + half, x + 2 * half))
    entries = np.floor(here - ((here + after) / 2 - middle) / 2 + 0.5)
    entries[-1] = 65535
    return np.asarray(entries, np.int64)


_SIGMOID = _compute_sigmoid_entries()


def _make_conversion(scale: FloatArray, exponents: tuple[int, ...]) -> Callable[[Int64], Int64]:
    """Return the conversion of integers to units of 1/12288: a factor of up to 15 bits, and a shift.

    A scale of 2^-12, or another power of two that the function takes, needs no shift.
    """
    exponent = _find_nearest_exponent(scale)
    if exponent in exponents:
        exact = 3 << (exponent + 12)
        return lambda q: q * exact
    factor, shift = float(scale) * _UNITS, 0
    while factor <= _HIGHEST / 2 and shift <= 30:
        factor, shift = factor * 2, shift + 1
    whole, half = int(factor), (1 << shift) >> 1
    return lambda q: (q * whole + half) >> shift


def _find_nearest_exponent(scale: FloatArray) -> int | None:
    """Return the k of a scale that LiteRT takes for 2^k, |log2(scale) − k| < 10^-3 in float32; None of others."""
    logarithm = np.log(np.float32(scale)) * (np.float32(1) / np.log(np.float32(2)))
    nearest = np.rint(logarithm)
    return int(nearest) if np.abs(logarithm - nearest) < np.float32(1e-3) else None


def _interpolate_entries(magnitude: Int64, bits: int) -> Int64:
    """Return σ at a magnitude with ``bits`` bits between two entries, in 1/2^(16 + bits)."""
    index, offset = magnitude >> bits, magnitude & ((1 << bits) - 1)
    inside = np.minimum(index, _ENTRIES - 2)
    below, above = _SIGMOID[inside], _SIGMOID[inside + 1]
    return np.where(index >= _ENTRIES - 1, -1, (below << bits) + offset * (above - below))


def _compute_logistic(v: Int64) -> Int64:
    found = _interpolate_entries(np.abs(v), 9)
    found = np.where(found < 0, 0x7FFF << 10, found)
    positive, negative = found + (1 << 9), (1 << 25) - found + (1 << 9) - 1
    return np.where(v >= 0, positive, negative) >> 10


def _compute_tanh(v: Int64) -> Int64:
    found = _interpolate_entries(np.abs(v), 8)
    found = np.where(found < 0, 0xFFFF << 8, found)
    nudge = 1 << 7
    positive, negative = found - (1 << 23) + nudge, -found + (1 << 23) + nudge - 1
    return np.where(v >= 0, positive, negative) >> 8


def _make_table_maker(
    function: Callable[[Int64], Int64], exponents: tuple[int, ...]
) -> KernelMaker:
    def make(site: Site) -> Kernel:
        argument = _make_conversion(get_activation_qparams(site).scale, exponents)
        return _make_unit_kernel(site, lambda q: function(argument(q)))

    return make


def _make_optimized_maker(
    function: Callable[[Int64], Int64], reference: KernelMaker, exponents: tuple[int, ...]
) -> KernelMaker:
    """Return the maker of a function in fixed point at the scales 2^k, which LiteRT's default kernels have.

    Args:
        function: The function of a Q3.12, to Q0.15.
        reference: Maker of the kernel at other scales.
        exponents: Each k.
    """

    def make(site: Site) -> Kernel:
        exponent = _find_nearest_exponent(get_activation_qparams(site).scale)
        if exponent not in exponents:
            return reference(site)
        left = exponent + 12
        return _make_unit_kernel(
            site, lambda q: function(np.clip(q << left, -_HIGHEST - 1, _HIGHEST))
        )

    return make


def _make_unit_kernel(site: Site, function: Callable[[Int64], Int64]) -> Kernel:
    require_output(site, UNIT, 0)
    return lambda inputs: saturate_to_output(
        site, function(require_input(site, inputs, 0).astype(np.int64))
    )


def _make_softmax(site: Site) -> Kernel:
    require_output(site, UNIT, 0)
    beta = float(site.attrs.get("beta", 1.0))
    to_units = quantize_multiplier(
        float(get_activation_qparams(site).scale) * beta / (10.0 / 65535.0)
    )
    exponentials = fill_table(np.exp, (10.0 / 65535.0, _HIGHEST), (2.0 / 65535.0, 0), np.float64)
    reciprocals = fill_table(
        lambda v: 1.0 / (1.0 + v), (1.0 / 65535.0, -_HIGHEST - 1), (2.0 / 65535.0, 0), np.float64
    )
    axis = int(site.attrs.get("axis", -1))

    def kernel(inputs: Inputs) -> NDArray[Any]:
        q = require_input(site, inputs, 0).astype(np.int64)
        below = q - q.max(axis=axis, keepdims=True)
        units = np.clip(multiply(below, *to_units) + _HIGHEST, -_HIGHEST - 1, _HIGHEST)
        e = interpolate(exponentials, units)
        total = e.sum(axis=axis, keepdims=True)
        bits = np.frexp(total.astype(np.float64))[1].astype(np.int64)  # of the sum
        scaled = ((total << (31 - bits)) + (1 << 13)) >> 14
        position = np.clip(scaled - (1 << 15) - (1 << 16), -_HIGHEST - 1, _HIGHEST)
        down = bits - 1
        share = (e * interpolate(reciprocals, position) + (1 << (down - 1))) >> down
        return saturate_to_output(site, np.clip(share, 0, _HIGHEST))

    return kernel


def _make_interpolated(site: Site) -> Kernel:
    """A function from a table of 513 entries, computed in float32."""
    x, y = get_activation_qparams(site), get_output_qparams(site)
    function = make_float32_gelu(site) if site.op == "Gelu" else _make_rounded_function(site)
    table = fill_table(function, (float(x.scale), 0), (float(y.scale), 0), np.float32)
    return lambda inputs: saturate_to_output(
        site, interpolate(table, require_input(site, inputs, 0).astype(np.int64))
    )


def _make_rounded_function(site: Site) -> Callable[[NDArray[Any]], NDArray[Any]]:
    exact = get_real_function(site.op, site.attrs)

    def in_float32(values: NDArray[Any]) -> NDArray[Any]:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return exact(values.astype(np.float64)).astype(np.float32)

    return in_float32


def _make_abs(site: Site) -> Kernel:
    ratio = get_activation_qparams(site).scale / get_output_qparams(site).scale

    def kernel(inputs: Inputs) -> NDArray[Any]:
        magnitude = np.abs(require_input(site, inputs, 0).astype(np.int64))
        return saturate_to_output(site, magnitude if ratio == 1 else rescale(magnitude, ratio))

    return kernel


_SIGMOID_EXPONENTS, _TANH_EXPONENTS = (-12,), (-12, -11)

KERNELS: Mapping[str, KernelMaker] = {
    "Abs": _make_abs,
    "Exp": _make_interpolated,
    "Gelu": _make_interpolated,
    "Sigmoid": _make_table_maker(_compute_logistic, _SIGMOID_EXPONENTS),
    "Softmax": extend_to_trailing_axes(_make_softmax),
    "Tanh": _make_table_maker(_compute_tanh, _TANH_EXPONENTS),
}

OPTIMIZED: Mapping[str, KernelMaker] = {
    "Sigmoid": _make_optimized_maker(
        fixed_point_int16.logistic, KERNELS["Sigmoid"], _SIGMOID_EXPONENTS
    ),
    "Tanh": _make_optimized_maker(fixed_point_int16.tanh, KERNELS["Tanh"], _TANH_EXPONENTS),
}
"""Where LiteRT's default kernels differ."""
