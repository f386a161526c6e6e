"""Minimum and maximum of each channel of an array."""

from __future__ import annotations

import numpy as np

from ptq.core.errors import StatsError
from ptq.core.types import FloatArray


def channel_extremes(x: FloatArray, axis: int) -> tuple[FloatArray, FloatArray]:
    """Minimum and maximum finite value of each channel; +inf and -inf for a channel without finite values.

    Args:
        x: An array that is not empty.
        axis: The channel axis.

    Raises:
        StatsError: x does not have this axis.
    """
    if not -x.ndim <= axis < x.ndim:
        raise StatsError(
            f"an array of rank {x.ndim} has no axis {axis}; give the channel axis of this tensor"
        )
    others = tuple(i for i in range(x.ndim) if i != axis % x.ndim)
    lo, hi = x.min(axis=others), x.max(axis=others)
    if not (np.all(np.isfinite(lo)) and np.all(np.isfinite(hi))):
        finite = np.isfinite(x)
        lo = np.min(x, axis=others, initial=np.inf, where=finite)
        hi = np.max(x, axis=others, initial=-np.inf, where=finite)
    return lo + np.float32(0), hi + np.float32(0)
