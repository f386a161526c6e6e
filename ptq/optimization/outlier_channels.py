"""Which channels of a tensor are outliers, from the extremes of every channel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_CHANNELS_PER_OUTLIER = 32
"""At most one channel in so many is an outlier."""
_MIN_RANGE_RATIO = 2**0.5
"""The lowest ratio of the range with outliers to the range without them."""
_RANGE_TOLERANCE = 2**0.25
"""The highest ratio of the remaining range to the least possible one; fewer outliers are taken if they reach it."""


def find_outlier_channels(
    least: NDArray[np.float32], greatest: NDArray[np.float32]
) -> NDArray[np.int64]:
    """The outlier channels of a tensor, in ascending order; none if the range gains too little.

    Their number is the smallest power of 2 that leaves nearly the least possible range.

    Args:
        least: The lowest value of each channel.
        greatest: The highest value of each channel.
    """
    count = len(least)
    most = count // _CHANNELS_PER_OUTLIER
    if not most:
        return np.zeros(0, np.int64)
    order = np.argsort(-np.maximum(-least, greatest), kind="stable")
    sizes = [2**k for k in range(most.bit_length())]
    widths = [
        _compute_range_width(least[order[size:]], greatest[order[size:]]) for size in (0, *sizes)
    ]
    if widths[0] < _MIN_RANGE_RATIO * widths[-1] or not widths[0] > 0:
        return np.zeros(0, np.int64)
    size = next(
        s for s, w in zip(sizes, widths[1:], strict=True) if w <= _RANGE_TOLERANCE * widths[-1]
    )
    return np.sort(order[:size]).astype(np.int64)


def _compute_range_width(least: NDArray[np.float32], greatest: NDArray[np.float32]) -> float:
    """The width of the range that holds 0 and all channels."""
    return max(0.0, float(greatest.max())) - min(0.0, float(least.min()))
