"""Scale and zero point of a range.

    asymmetric   S = (max − min) / (q_max − q_min),   Z = round(q_min − min / S)      (TPU-MLIR; Jacob 2018, eq. 1)
    symmetric    S = max(|min|, |max|) / (q_max − Z),   Z = 0 if signed, else the middle of the type

The range is widened to contain 0, which Z then represents exactly. Scales are bounded so that nothing
computed from them exceeds float32:

    S ≥ 2^-63               a product of two scales, which is the scale of a bias, is a normal number (≥ 2^-126)
    S · |q − Z| ≤ FLT_MAX   every integer dequantizes to a finite number

A range [0, 0] does not determine the scale. A tensor of zeros gets scale 1. A channel of zeros gets the largest scale
of the remaining channels. The LSB of a bias is input scale times weight scale. So all biases have about the same
resolution.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import FloatArray, QType, QuantParams, Range

SCALE_FLOOR = 2.0**-63
_FLT_MAX = float(np.finfo(np.float32).max)
_Floats = NDArray[np.float64]
Scales = tuple[FloatArray, NDArray[np.int64]]
"""Scales and zero points of the same shape."""


def compute_asymmetric_qparams(span: Range, qtype: QType, axis: int | None = None) -> QuantParams:
    """Parameters that spread all integers of the type over the range.

    Args:
        span: The range: scalars, or arrays along ``axis``. Infinite ends count as the largest float32.
        qtype: The allowed integers.
        axis: The channel axis if the range consists of arrays.
    """
    return QuantParams(*compute_asymmetric_scales(span.lo, span.hi, qtype), qtype, axis)


def compute_asymmetric_scales(lo: _Floats, hi: _Floats, qtype: QType) -> Scales:
    """The scales and the zero points of `compute_asymmetric_qparams` for many ranges, or for one."""
    lo = np.minimum(np.maximum(lo, -_FLT_MAX), 0.0)
    hi = np.maximum(np.minimum(hi, _FLT_MAX), 0.0)
    scale = _to_usable_scale((hi - lo) / qtype.lsb_count)
    zero_point = np.minimum(np.maximum(np.rint(qtype.lo - lo / scale), qtype.lo), qtype.hi)
    whole = zero_point.astype(np.int64)
    return _bound_scale(scale, whole, qtype), whole


def compute_symmetric_qparams(
    span: Range | float | NDArray[np.float64], qtype: QType, axis: int | None = None
) -> QuantParams:
    """Parameters that cover the range with the zero point in the middle of the type.

    Args:
        span: A range, or the threshold T of [-T, T]: scalars, or arrays along ``axis``.
        qtype: The allowed integers; [-127, 127] for weights.
        axis: The channel axis if the range consists of arrays.
    """
    if not isinstance(span, Range):
        threshold = np.abs(np.asarray(span, np.float64))
        span = Range(-threshold, threshold)
    return QuantParams(*compute_symmetric_scales(span.lo, span.hi, qtype), qtype, axis)


def compute_symmetric_scales(lo: _Floats, hi: _Floats, qtype: QType) -> Scales:
    """The scales and the zero points of `compute_symmetric_qparams` for many ranges, or for one."""
    middle = 0 if qtype.signed else (qtype.lo + qtype.hi + 1) // 2
    largest = np.minimum(np.maximum(np.abs(lo), np.abs(hi)), _FLT_MAX)
    scale = _to_usable_scale(largest / (qtype.hi - middle))
    zero_point = np.full(scale.shape, middle, np.int64)
    return _bound_scale(scale, zero_point, qtype), zero_point


def _to_usable_scale(scale: _Floats) -> _Floats:
    """Scales rounded to float32, with zeros replaced and no scale below `SCALE_FLOOR`."""
    largest = float(np.maximum.reduce(scale, axis=None, initial=0.0))
    scale = np.where(scale == 0, largest or 1.0, scale)
    return np.maximum(scale, SCALE_FLOOR).astype(np.float32).astype(np.float64)


def _bound_scale(scale: _Floats, zero_point: NDArray[np.int64], qtype: QType) -> FloatArray:
    limit = _FLT_MAX / np.maximum(qtype.hi - zero_point, zero_point - qtype.lo)
    bounded = np.minimum(scale, limit).astype(np.float32)
    # for scales that rounding to float32 put above the limit
    down = np.nextafter(bounded, np.float32(0))
    return np.where(bounded > limit, down, bounded)
