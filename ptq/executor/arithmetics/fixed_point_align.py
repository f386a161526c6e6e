"""Alignment of integer tensors to one fixed-point scale, and requantization to the output.

    scale ≈ i_s · 2^-fracbits,  i_s ∈ [128, 255]
    x_i = ((n − zero_point) · i_s) << (maxfracbits − fracbits),     x ≈ x_i · 2^-maxfracbits
    q = Zy + (x_i · m >> r),                                        m · 2^-r ≈ 2^-maxfracbits / Sy,  m of 16 bits

The shift is never negative. The mantissa of a tensor is the nearest one, with a relative error of at most 2^-8; the
error of the rescaling is at most 2^-16. Ties of >> go upwards. |x_i| < 2^46 keeps the last product within int64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.core.types import IntArray, QuantParams
from ptq.executor.arithmetics.node_site import Site, get_output_bounds, get_output_qparams
from ptq.kernels.multiplier_shift import Int64, shift_right, to_mantissa_and_shift

SCALE_BITS = 8
RESCALE_BITS = 16
_SUM_BITS = 62 - RESCALE_BITS


def reshape_per_channel(value: NDArray[Any], axis: int | None, rank: int) -> NDArray[Any]:
    """Return one value for each channel, shaped to broadcast against that rank; a scalar unchanged."""
    if axis is None or value.ndim == 0:
        return value
    shape = [1] * rank
    shape[axis] = -1
    return value.reshape(shape)


@dataclass(frozen=True, eq=False)
class ScaleAlignment:
    """Conversion of one tensor to the common scale 2^-maxfracbits.

    Attributes:
        zero_point: Zero point of the tensor, scalar or along its channels.
        mantissa: i_s, scalar or along its channels.
        shift: maxfracbits − fracbits, scalar or along its channels; not negative.
        axis: Channel axis, None for scalars.
        max_magnitude: Largest possible |x_i|.
    """

    zero_point: Int64
    mantissa: Int64
    shift: Int64
    axis: int | None
    max_magnitude: int

    def __call__(self, n: NDArray[Any]) -> Int64:
        """Return the fixed-point tensor x_i."""
        zero_point, m, shift = (
            reshape_per_channel(value, self.axis, n.ndim)
            for value in (self.zero_point, self.mantissa, self.shift)
        )
        fixed: Int64 = ((n.astype(np.int64) - zero_point) * m) << shift
        return fixed


def align_scales(
    tensors: Sequence[QuantParams], *, one_scale: bool = False
) -> tuple[tuple[ScaleAlignment, ...], Int64]:
    """Align tensors to a common number of fraction bits.

    Args:
        tensors: Parameters of the tensors, per tensor or per channel of one axis.
        one_scale: One scalar for all channels, as an operation that sums over channels needs.

    Returns:
        Alignment of each tensor, and maxfracbits: a scalar, or one value for each channel.

    Raises:
        UnsupportedError: The scales differ by too large a factor.
    """
    mantissas = [to_mantissa_and_shift(t.scale, SCALE_BITS) for t in tensors]
    most = np.asarray(np.max(np.broadcast_arrays(*(bits for _, bits in mantissas)), axis=0))
    if one_scale:
        most = np.asarray(most.max())
    alignments = []
    for params, (m, bits) in zip(tensors, mantissas, strict=True):
        shift = np.asarray(most - bits)
        axis = params.axis
        if axis is None and shift.ndim:
            axis = next(t.axis for t in tensors if t.axis is not None)
        info = np.iinfo(params.qtype.dtype)
        widest = np.maximum(info.max - params.zero_point, params.zero_point - info.min)
        largest_shift = int(np.max(shift))
        if largest_shift > _SUM_BITS:
            raise UnsupportedError(
                f"scales that differ by 2^{largest_shift} cannot be aligned; leave the node float"
            )
        max_magnitude = int(np.max((widest * m) << shift))
        alignments.append(ScaleAlignment(params.zero_point, m, shift, axis, max_magnitude))
    return tuple(alignments), most


def make_output_requantizer(
    site: Site, real: NDArray[Any], max_magnitude: int
) -> Callable[[Int64], IntArray]:
    """Return the function Zy + (x_i · m >> r), clamped, with m · 2^-r ≈ real, which broadcasts against x_i.

    Raises:
        UnsupportedError: The sums, of magnitude up to ``max_magnitude``, may exceed their bits.
    """
    if max_magnitude >= 1 << _SUM_BITS:
        raise UnsupportedError(
            f"sums of {site.op} may need {max_magnitude.bit_length()} of {_SUM_BITS} bits: its scales differ "
            "by too large a factor; leave the node float"
        )
    y, (lo, hi) = get_output_qparams(site), get_output_bounds(site)
    m, r = to_mantissa_and_shift(real, RESCALE_BITS)

    def requantize(x: Int64) -> IntArray:
        q: IntArray = np.clip(shift_right(x * m, r) + int(y.zero_point), lo, hi)
        return q.astype(y.qtype.dtype)

    return requantize
