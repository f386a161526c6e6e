"""Type of the step from accumulators to outputs: the interface between the kernels and an arithmetic."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import FloatArray, IntArray

Accumulator = FloatArray | NDArray[np.int32]
Channels = slice | NDArray[np.intp]


class Requantizer(Protocol):
    """A function from accumulators to outputs: rescale, round, add the zero point, clamp; or rescale to float.

    It is monotone in every channel, except where int32 wraps.
    """

    def __call__(self, acc: Accumulator, channels: Channels) -> IntArray | FloatArray:
        """Requantize one tile.

        Args:
            acc: Shape (..., channels), bias included. It may be overwritten. It is float32 only if every value is an
                integer of magnitude at most 2^24 and thus exact, or if the channel gives one output for all inputs.
                Otherwise int32.
            channels: Output channels of the last axis, for per-channel parameters: a slice of all, or the positions
                of some.

        Returns:
            Integers of the output's type, or float32 for a float output; same shape.
        """
        ...
