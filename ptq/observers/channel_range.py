"""Between which extremes do the values of each channel lie?"""

from __future__ import annotations

import numpy as np

from ptq.core.errors import StatsError
from ptq.core.types import FloatArray


def channel_extremes(x: FloatArray, axis: int) -> tuple[FloatArray, FloatArray]:
    """The least and the greatest finite value of each channel; (+inf, -inf) where there is none.

    Args:
        x: Not empty.
        axis: The channel axis.

    Raises:
        StatsError: x has no such axis.
    """
    if not -x.ndim <= axis < x.ndim:
        raise StatsError(
            f"an array of rank {x.ndim} has no axis {axis}; name the channel axis of this tensor"
        )
    others = tuple(i for i in range(x.ndim) if i != axis % x.ndim)
    lo, hi = x.min(axis=others), x.max(axis=others)
    if not (np.all(np.isfinite(lo)) and np.all(np.isfinite(hi))):
        finite = np.isfinite(x)
        lo = np.min(x, axis=others, initial=np.inf, where=finite)
        hi = np.max(x, axis=others, initial=-np.inf, where=finite)
    return lo + np.float32(0), hi + np.float32(0)
