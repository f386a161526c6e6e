"""How does an integer tensor become a fixed-point one, aligned with others, and an integer again?

    scale ≈ i_s · 2^-fracbits,  i_s ∈ [128, 255]
    x_i = ((n − zero_point) · i_s) << (maxfracbits − fracbits),     x ≈ x_i · 2^-maxfracbits
    q = Zy + (x_i · m >> r),                                        m · 2^-r ≈ 2^-maxfracbits / Sy,  m of 16 bits

The shift is never negative. A tensor's mantissa is the nearest one, its relative error at most 2^-8; that of the
rescale at most 2^-16. Ties of >> go upwards. |x_i| < 2^46 keeps the last product within int64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.core.types import IntArray, QuantParams
from ptq.executor.arithmetics.node_site import Site, output_bounds, output_qparams
from ptq.kernels.multiplier_shift import Int64, mantissa_and_shift, shift_right

SCALE_BITS = 8
RESCALE_BITS = 16
_SUM_BITS = 62 - RESCALE_BITS


def reshape_per_channel(value: NDArray[Any], axis: int | None, rank: int) -> NDArray[Any]:
    """One value a channel, shaped to broadcast against a tensor of that rank; a scalar as it is."""
    if axis is None or value.ndim == 0:
        return value
    shape = [1] * rank
    shape[axis] = -1
    return value.reshape(shape)


@dataclass(frozen=True, eq=False)
class ScaleAlignment:
    """One tensor's way to the common scale 2^-maxfracbits.

    Attributes:
        zero_point: Of the tensor, scalar or along its channels.
        mantissa: i_s, likewise.
        shift: maxfracbits − fracbits, likewise; not negative.
        axis: The channel axis, None for scalars.
        reach: The largest magnitude that x_i can have.
    """

    zero_point: Int64
    mantissa: Int64
    shift: Int64
    axis: int | None
    max_magnitude: int

    def __call__(self, n: NDArray[Any]) -> Int64:
        """The fixed-point tensor x_i."""
        zero_point, m, shift = (
            reshape_per_channel(value, self.axis, n.ndim)
            for value in (self.zero_point, self.mantissa, self.shift)
        )
        fixed: Int64 = ((n.astype(np.int64) - zero_point) * m) << shift
        return fixed


def align_scales(
    tensors: Sequence[QuantParams], *, one_scale: bool = False
) -> tuple[tuple[ScaleAlignment, ...], Int64]:
    """Bring tensors to a common number of fraction bits.

    Args:
        tensors: Parameters of the tensors, per tensor or per channel of one axis.
        one_scale: One scalar number for all channels, as an operation that sums over them needs.

    Returns:
        Each tensor's alignment, and maxfracbits: a scalar, or one a channel.

    Raises:
        UnsupportedError: The scales lie too far apart.
    """
    written = [mantissa_and_shift(t.scale, SCALE_BITS) for t in tensors]
    most = np.asarray(np.max(np.broadcast_arrays(*(bits for _, bits in written)), axis=0))
    if one_scale:
        most = np.asarray(most.max())
    ways = []
    for params, (m, bits) in zip(tensors, written, strict=True):
        shift = np.asarray(most - bits)
        axis = params.axis
        if axis is None and shift.ndim:
            axis = next(t.axis for t in tensors if t.axis is not None)
        info = np.iinfo(params.qtype.dtype)
        widest = np.maximum(info.max - params.zero_point, params.zero_point - info.min)
        furthest = int(np.max(shift))
        if furthest > _SUM_BITS:
            raise UnsupportedError(
                f"scales that differ by 2^{furthest} cannot be aligned; leave the node float"
            )
        reach = int(np.max((widest * m) << shift))
        ways.append(ScaleAlignment(params.zero_point, m, shift, axis, reach))
    return tuple(ways), most


def output_requantizer(site: Site, real: NDArray[Any], reach: int) -> Callable[[Int64], IntArray]:
    """Zy + (x_i · m >> r), clamped, with m · 2^-r ≈ real, broadcast against x_i.

    Raises:
        UnsupportedError: The sums, of magnitude up to ``reach``, may leave their bits.
    """
    if reach >= 1 << _SUM_BITS:
        raise UnsupportedError(
            f"sums of {site.op} may need {reach.bit_length()} of {_SUM_BITS} bits: its scales differ "
            "too much; leave the node float"
        )
    y, (lo, hi) = output_qparams(site), output_bounds(site)
    m, r = mantissa_and_shift(real, RESCALE_BITS)

    def requantize(x: Int64) -> IntArray:
        q: IntArray = np.clip(shift_right(x * m, r) + int(y.zero_point), lo, hi)
        return q.astype(y.qtype.dtype)

    return requantize
