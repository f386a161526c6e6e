"""How far do the channels of a tensor go, and how large are they?"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from ptq.observers.channel_range import channel_extremes


@dataclass(frozen=True, eq=False)
class ChannelSpread:
    """What the channels of a tensor hold: the extremes, and the sum of squares, of each.

    Attributes:
        least: By channel.
        greatest: By channel.
        squares: By channel.
        count: Values of a channel.
    """

    least: NDArray[np.float32]
    greatest: NDArray[np.float32]
    sum_of_squares: NDArray[np.float64]
    count: int

    @classmethod
    def from_array(cls, array: NDArray[np.float32], axis: int = -1) -> ChannelSpread:
        """Of an array that is not empty, channels along an axis."""
        axis %= array.ndim
        flat = array.reshape(prod(array.shape[:axis]), array.shape[axis], -1)
        squares = np.einsum("bci,bci->c", flat, flat, dtype=np.float64)
        return cls(*channel_extremes(array, axis), squares, array.size // array.shape[axis])

    def __or__(self, other: ChannelSpread) -> ChannelSpread:
        """Of both arrays."""
        return ChannelSpread(
            np.minimum(self.least, other.least),
            np.maximum(self.greatest, other.greatest),
            self.sum_of_squares + other.sum_of_squares,
            self.count + other.count,
        )

    @property
    def is_finite(self) -> bool:
        """Whether all of them are."""
        return all(np.isfinite(a).all() for a in (self.least, self.greatest, self.sum_of_squares))
