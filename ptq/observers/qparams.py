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

from ptq.core.types import QType, QuantParams, Range

SCALE_FLOOR = 2.0**-63
_FLT_MAX = float(np.finfo(np.float32).max)


def asymmetric_qparams(span: Range, qtype: QType, axis: int | None = None) -> QuantParams:
    """Parameters that spread all integers of the type over the range.

    Args:
        span: The range: scalars, or arrays along ``axis``. Infinite ends count as the largest float32.
        qtype: The allowed integers.
        axis: The channel axis if the range consists of arrays.
    """
    lo = np.clip(span.lo, -_FLT_MAX, 0.0)
    hi = np.clip(span.hi, 0.0, _FLT_MAX)
    scale = _usable_scale((hi - lo) / qtype.lsb_count)
    zero_point = np.clip(np.rint(qtype.lo - lo / scale), qtype.lo, qtype.hi).astype(np.int64)
    return _make_qparams(scale, zero_point, qtype, axis)


def symmetric_qparams(
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
    middle = 0 if qtype.signed else (qtype.lo + qtype.hi + 1) // 2
    largest = np.minimum(np.maximum(np.abs(span.lo), np.abs(span.hi)), _FLT_MAX)
    scale = _usable_scale(largest / (qtype.hi - middle))
    return _make_qparams(scale, np.full(scale.shape, middle, np.int64), qtype, axis)


def _usable_scale(scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scales rounded to float32, with zeros replaced and no scale below `SCALE_FLOOR`."""
    zero = scale == 0
    largest = np.max(scale, initial=0.0)
    scale = np.where(zero, largest if largest > 0 else 1.0, np.maximum(scale, SCALE_FLOOR))
    return np.maximum(scale, SCALE_FLOOR).astype(np.float32).astype(np.float64)


def _make_qparams(
    scale: NDArray[np.float64], zero_point: NDArray[np.int64], qtype: QType, axis: int | None
) -> QuantParams:
    limit = _FLT_MAX / np.maximum(qtype.hi - zero_point, zero_point - qtype.lo)
    bounded = np.minimum(scale, limit).astype(np.float32)
    down = np.nextafter(
        bounded, np.float32(0)
    )  # for scales that rounding to float32 put above the limit
    return QuantParams(np.where(bounded > limit, down, bounded), zero_point, qtype, axis)
