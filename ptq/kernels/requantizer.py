"""The one seam between an integer core and an arithmetic: what becomes of an accumulator."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import FloatArray, IntArray

Accumulator = FloatArray | NDArray[np.int32]
Channels = slice | NDArray[np.intp]


class Requantizer(Protocol):
    """Turns accumulators into outputs: rescale, round, add the zero point, clamp; or rescale alone.

    Monotone in every channel, but where int32 wraps.
    """

    def __call__(self, acc: Accumulator, channels: Channels) -> IntArray | FloatArray:
        """Finish one tile.

        Args:
            acc: Shape (..., channels), bias included. float32 only where every value is an
                integer of magnitude at most 2^24 and so exact, or the channel gives one output for all that
                may come in; int32 otherwise. May be overwritten.
            channels: Which output channels the last axis holds (per-channel parameters follow it): a slice
                of all of them, or the positions of some.

        Returns:
            Integers of the output's type, or float32 where the output stays real; same shape.
        """
        ...
