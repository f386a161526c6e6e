"""XNNPACK's elementwise operators in 8 bits, within its ranges of scales; outside them, LiteRT's reference kernels.

    Mul                    q = zo + rne(float32((a − za)(b − zb)) · ((sa · sb) / so))                 in float32
    Add, Sub               q = zo + floor(((a − za) · ma ± (b − zb) · mb + 2^(s−1)) / 2^s),
                           ma = rne(sa / so · 2^s),   s = 20 − floor(log2(max(sa, sb) / so))
    Requantize, LeakyRelu  q = zo + ((zx − x) · 2^7 · m + 2^14) >> 15,   m = rne(−256 · sx / so)
                           LeakyRelu below zero: m times alpha
    Clip, fused            bounds rne(bound / so + zo)                                                in float32

rne rounds ties to even. A clamp is XNNPACK's only where a file fuses it into an operator that XNNPACK takes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.core.types import FloatArray, QuantParams
from ptq.executor.arithmetics import litert_elementwise
from ptq.executor.arithmetics.litert_elementwise import (
    make_binary_table_kernel,
    make_unary_table_kernel,
)
from ptq.executor.arithmetics.node_site import (
    FUSED_INTO,
    Kernel,
    KernelMaker,
    Site,
    get_activation_qparams,
    get_constant_input,
    get_output_qparams,
    require_input,
)
from ptq.kernels.fixed_point import Int64

_SUM_RATIOS = (2.0**-10, 2.0**8)
_PRODUCT_RATIOS = (2.0**-16, 2.0**8)
_RATIOS = (2.0**-8, 2.0**7)


def _is_within(ratio: float | FloatArray, bounds: tuple[float, float]) -> bool:
    return bounds[0] <= float(ratio) < bounds[1]


def _compute_product_ratio(site: Site) -> FloatArray:
    a, b = get_activation_qparams(site, 0), get_activation_qparams(site, 1)
    ratio: FloatArray = np.float32(a.scale * b.scale) / get_output_qparams(site).scale
    return ratio


def _compute_sum_ratios(site: Site) -> tuple[FloatArray, FloatArray]:
    so = get_output_qparams(site).scale
    return get_activation_qparams(site, 0).scale / so, get_activation_qparams(site, 1).scale / so


def is_taken(site: Site) -> bool:
    """Return whether XNNPACK takes an operator that fuses a clamp."""
    if site.op == "Mul":
        return _is_within(_compute_product_ratio(site), _PRODUCT_RATIOS)
    if site.op in ("Add", "Sub"):
        return _is_within(np.maximum(*_compute_sum_ratios(site)), _SUM_RATIOS)
    right = get_constant_input(site, 1)
    return site.op in ("Conv", "Gemm", "MaxPool") or (right is not None and right.ndim == 2)


def compute_fused_bounds(y: QuantParams, lo: float | None, hi: float | None) -> tuple[int, int]:
    """Return the real bounds of a clamp that XNNPACK fuses as integers: rne(bound / so + zo), within the type."""

    def bound(real: float | None, end: int) -> int:
        if real is None:
            return end
        steps = np.float32(real) / y.scale + np.float32(y.zero_point)
        return int(np.rint(np.clip(steps, y.qtype.lo, y.qtype.hi)))

    return bound(lo, y.qtype.lo), bound(hi, y.qtype.hi)


def _make_clip(site: Site) -> Kernel:
    """RELU6 and RELU_N1_TO_1; XNNPACK has only those that it fuses."""
    fused = site.attrs.get(FUSED_INTO)
    if fused is None or not is_taken(fused):
        return litert_elementwise.KERNELS["Clip"](site)
    lo, hi = compute_fused_bounds(
        get_output_qparams(site), site.attrs.get("min"), site.attrs.get("max")
    )
    return lambda inputs: np.clip(require_input(site, inputs, 0), lo, hi)


def _make_mul(site: Site) -> Kernel:
    ratio = _compute_product_ratio(site)
    if not is_taken(site):
        return litert_elementwise.KERNELS["Mul"](site)
    return make_binary_table_kernel(site, lambda qa, qb: _round_product(qa * qb, ratio))


def _round_product(acc: Int64, ratio: FloatArray) -> NDArray[np.float32]:
    value: NDArray[np.float32] = np.rint(acc.astype(np.float32) * np.float32(ratio))
    return value


def _make_sum_maker(sign: int) -> KernelMaker:
    def make(site: Site) -> Kernel:
        a, b = _compute_sum_ratios(site)
        largest = np.maximum(a, b)
        if sign > 0 and largest >= _SUM_RATIOS[1]:
            raise UnsupportedError(
                f"ADD in LiteRT's default kernels wraps in 16 bits if the scale of an input is {largest:.3g} times "
                f"that of the output; it is computed below {_SUM_RATIOS[1]:.0f} times"
            )
        if not is_taken(site):
            return litert_elementwise.KERNELS["Add" if sign > 0 else "Sub"](site)
        shift = 20 - (int(np.frexp(largest)[1]) - 1)
        ma, mb = (int(np.rint(np.ldexp(np.float32(r), shift))) for r in (a, b))

        def total(qa: Int64, qb: Int64) -> Int64:
            return (qa * ma + sign * qb * mb + (1 << (shift - 1))) >> shift

        return make_binary_table_kernel(site, total)

    return make


def _to_fixed_factor(ratio: float | FloatArray) -> int:
    return int(np.rint(np.float32(-256.0) * np.float32(ratio)))


def _scale_by(q: Int64, factor: int) -> Int64:
    """The rescaling of q = x − zx by −factor / 256, with one rounding upwards."""
    return ((-q << 7) * factor + (1 << 14)) >> 15


def _make_requantize(site: Site) -> Kernel:
    ratio = get_activation_qparams(site).scale / get_output_qparams(site).scale
    if not _is_within(ratio, _RATIOS):
        return litert_elementwise.KERNELS["Requantize"](site)
    return make_unary_table_kernel(site, lambda q: _scale_by(q, _to_fixed_factor(ratio)))


def _make_leaky_relu(site: Site) -> Kernel:
    ratio = get_activation_qparams(site).scale / get_output_qparams(site).scale
    below = ratio * np.float32(site.attrs.get("alpha", 0.01))
    if not _is_within(ratio, _RATIOS) or not _is_within(np.abs(below), _RATIOS):
        return litert_elementwise.KERNELS["LeakyRelu"](site)
    factors = _to_fixed_factor(ratio), _to_fixed_factor(below)
    return make_unary_table_kernel(
        site, lambda q: np.where(q >= 0, _scale_by(q, factors[0]), _scale_by(q, factors[1]))
    )


KERNELS: Mapping[str, KernelMaker] = {
    "Add": _make_sum_maker(1),
    "Clip": _make_clip,
    "LeakyRelu": _make_leaky_relu,
    "Mul": _make_mul,
    "Requantize": _make_requantize,
    "Sub": _make_sum_maker(-1),
}
