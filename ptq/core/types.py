"""Integer types, real ranges, and the affine map between real numbers and integers.

A real number r and an integer q correspond by r = scale · (q − zero_point)  (Jacob et al. 2018, eq. 1).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ptq.core.errors import PlanError
from ptq.core.rounding import round_half_away

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.integer[Any]]
FLOAT32 = np.dtype(np.float32)
FLOAT16 = np.dtype(np.float16)


@dataclass(frozen=True)
class QType:
    """An integer type and the sub-range of it that quantization uses."""

    bits: int
    signed: bool
    lo: int
    hi: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy type that stores it."""
        return np.dtype(f"{'' if self.signed else 'u'}int{self.bits}")

    @property
    def name(self) -> str:
        """Name of the type in numpy and ONNX, such as ``uint8``."""
        return self.dtype.name

    @property
    def container(self) -> tuple[int, int]:
        """The least and the greatest integer that the numpy type can store."""
        lo = -(1 << (self.bits - 1)) if self.signed else 0
        return lo, lo + (1 << self.bits) - 1

    @property
    def lsb_count(self) -> int:
        """Number of quantization levels above the lowest one: hi − lo."""
        return self.hi - self.lo


INT8 = QType(8, True, -128, 127)
UINT8 = QType(8, False, 0, 255)
INT8_WEIGHT = QType(8, True, -127, 127)
INT16 = QType(16, True, -32768, 32767)
UINT16 = QType(16, False, 0, 65535)
INT32 = QType(32, True, -(2**31), 2**31 - 1)
INT64 = QType(64, True, -(2**63), 2**63 - 1)


@dataclass(frozen=True)
class Range:
    """Interval of real values that the integers must cover: scalars, or arrays along an axis."""

    lo: NDArray[np.float64]
    hi: NDArray[np.float64]

    def __init__(self, lo: float | NDArray[Any], hi: float | NDArray[Any]) -> None:
        object.__setattr__(self, "lo", np.asarray(lo, np.float64))
        object.__setattr__(self, "hi", np.asarray(hi, np.float64))
        if self.lo.shape != self.hi.shape or not (self.lo <= self.hi).all():
            raise PlanError(f"invalid range [{lo}, {hi}]: low end must be ≤ high end")

    def union(self, other: Range) -> Range:
        """Return the smallest range that contains both."""
        return Range(np.minimum(self.lo, other.lo), np.maximum(self.hi, other.hi))


@dataclass(frozen=True, eq=False)
class QuantParams:
    """Scale and zero point of one tensor: r = scale · (q − zero_point).

    Attributes:
        scale: float32, positive and finite; 0-d per tensor, or 1-d along ``axis``.
        zero_point: int64 of the same shape, within the integer type.
        qtype: Integer type of q; values saturate at its ``lo`` and ``hi``.
        axis: Channel axis of a 1-d scale; None for a 0-d scale.
    """

    scale: FloatArray
    zero_point: NDArray[np.int64]
    qtype: QType
    axis: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", np.asarray(self.scale, np.float32))
        object.__setattr__(self, "zero_point", np.asarray(self.zero_point, np.int64))
        if self.scale.ndim > 1 or (self.scale.ndim == 1) != (self.axis is not None):
            raise PlanError(
                "a per-channel scale must be 1-d and have an axis; a per-tensor scale must be 0-d"
            )
        if self.scale.shape != self.zero_point.shape:
            raise PlanError("scale and zero point differ in shape")
        if not self.scale.size:
            return
        if not (self.scale.min() > 0 and self.scale.max() < np.inf):  # a NaN is the least of all
            bad = self.scale[~(np.isfinite(self.scale) & (self.scale > 0))]
            raise PlanError(f"scale {bad.flat[0]} is not positive and finite")
        lo, hi = self.qtype.container
        if self.zero_point.min() < lo or self.zero_point.max() > hi:
            raise PlanError(f"zero point {self.zero_point} is outside {self.qtype.name}")

    @classmethod
    def per_tensor(cls, scale: float, zero_point: int, qtype: QType) -> QuantParams:
        """Return parameters with one scale and one zero point."""
        return cls(np.array(scale, np.float32), np.array(zero_point, np.int64), qtype)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, QuantParams)
            and self.qtype == other.qtype
            and self.axis == other.axis
            and np.array_equal(self.scale, other.scale)
            and np.array_equal(self.zero_point, other.zero_point)
        )

    def __hash__(self) -> int:
        return hash((self.scale.tobytes(), self.zero_point.tobytes(), self.qtype, self.axis))

    def broadcast_to_rank(self, rank: int) -> tuple[FloatArray, NDArray[np.int64]]:
        """Return scale and zero point, shaped to broadcast against a tensor of that rank."""
        if self.axis is None:
            return self.scale, self.zero_point
        shape = [1] * rank
        shape[self.axis] = -1
        return self.scale.reshape(shape), self.zero_point.reshape(shape)

    def select(self, channels: slice) -> QuantParams:
        """Return the parameters of some channels; the scale must be per channel."""
        return replace(self, scale=self.scale[channels], zero_point=self.zero_point[channels])

    def quantize(self, x: ArrayLike) -> IntArray:
        """Quantize as ONNX QuantizeLinear does: float32 division, ties to even, saturation."""
        _, zero_point = self.broadcast_to_rank(np.ndim(x))
        integers: IntArray = self._round_lsb(x).astype(self._whole_dtype)
        integers += zero_point.astype(self._whole_dtype)
        q: IntArray = integers.astype(self.qtype.dtype)
        return q

    def quantize_half_away(self, x: ArrayLike) -> IntArray:
        """Quantize as LiteRT's reference QUANTIZE does: float32 division, ties away from zero; only by one scale."""
        return self._saturate(round_half_away(np.asarray(np.asarray(x, np.float32) / self.scale)))

    def quantize_by_inverse(self, x: ArrayLike) -> IntArray:
        """Quantize as XNNPACK does: float32 product with 1 / scale, ties to even; only by one scale."""
        inverse = np.float32(1) / self.scale
        return self._saturate(np.rint(np.asarray(np.asarray(x, np.float32) * inverse)))

    def _saturate(self, lsb: NDArray[Any]) -> IntArray:
        # float32 holds integers of 16 bits exactly; those of 32 bits need float64
        real = lsb.astype(np.float32 if self.qtype.bits <= 16 else np.float64, copy=False)
        q = np.clip(real + int(self.zero_point), self.qtype.lo, self.qtype.hi)
        return np.asarray(q, self.qtype.dtype)

    def round(self, x: ArrayLike) -> FloatArray:
        """The real numbers of the integers, as `dequantize` returns them after `quantize`; a 0 may be -0.0."""
        scale, _ = self.broadcast_to_rank(np.ndim(x))
        real: FloatArray = self._round_lsb(x).astype(np.float32, copy=False)
        np.multiply(real, scale, out=real)
        return real

    def _round_lsb(self, x: ArrayLike) -> NDArray[Any]:
        """The integers less their zero point, as real numbers."""
        scale, zero_point = self.broadcast_to_rank(np.ndim(x))
        # float32 holds bounds of 16 bits exactly; bounds of 32 bits need float64.
        real = np.float32 if self.qtype.bits <= 16 else np.float64
        with np.errstate(over="ignore"):  # it saturates, as a bound of the largest float32
            lsb: NDArray[Any] = np.asarray(np.asarray(x, np.float32) / scale)
        lsb = lsb.astype(real, copy=False)
        # np.clip takes three times as long with bounds for each channel
        np.maximum(lsb, (self.qtype.lo - zero_point).astype(real), out=lsb)
        np.minimum(lsb, (self.qtype.hi - zero_point).astype(real), out=lsb)
        np.rint(lsb, out=lsb)
        return lsb

    @property
    def _whole_dtype(self) -> type[np.signedinteger[Any]]:
        return np.int32 if self.qtype.bits <= 16 else np.int64

    def dequantize(self, q: IntArray) -> FloatArray:
        """Dequantize as ONNX DequantizeLinear does: one float32 product."""
        scale, zero_point = self.broadcast_to_rank(np.ndim(q))
        whole = self._whole_dtype
        real: FloatArray = (q.astype(whole) - zero_point.astype(whole)).astype(np.float32)
        return np.multiply(real, scale, out=real) if real.ndim else real * scale
