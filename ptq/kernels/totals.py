"""How do exact sums become outputs? The bias is added and the arithmetic finishes them, in float32 where it can.

A channel whose weights are almost nothing has a bias of up to 2^31 units, far beyond what float32 holds exactly.
Such channels are few, so they alone are completed in int32 and the others stay in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.kernels.exact import Sum
from ptq.kernels.finish import Finish
from ptq.types import FloatArray, IntArray

# A loop over fewer elements is mostly overhead.
_RUN = 1024


class Totals:
    """The second half of a planned sum.

    Attributes:
        dtype: What the accumulators must be held in: float32, or int32 where that is not exact.
    """

    def __init__(self, plan: Sum) -> None:
        self.dtype = np.dtype(np.float32 if plan.exact else np.int32)
        self._beyond = plan.beyond
        self._large = plan.bias[plan.beyond].astype(np.int32)
        rest = plan.bias.copy()
        rest[plan.beyond] = 0
        repeats = max(1, _RUN // len(rest))
        self._bias = np.tile(rest.astype(self.dtype), repeats) if np.any(rest) else None

    def finished(self, acc: NDArray[Any], finish: Finish) -> IntArray | FloatArray:
        """Add the bias to accumulators (rows, O), contiguous, and finish them; they are overwritten.

        int32 holds them modulo 2^32.
        """
        channels = slice(0, acc.shape[1])
        if not self._beyond.size:
            self._add(acc)
            return finish(acc, channels)
        wide = acc[:, self._beyond].astype(np.int32)
        wide += self._large
        self._add(acc)
        q = finish(acc, channels)
        q[:, self._beyond] = finish(wide, self._beyond)
        return q

    def _add(self, acc: NDArray[Any]) -> None:
        if self._bias is None:
            return
        rows, columns = acc.shape
        split = rows - rows % (len(self._bias) // columns)
        head = acc[:split].reshape(-1, len(self._bias))
        np.add(head, self._bias, out=head)
        if split < rows:
            tail = acc[split:]
            np.add(tail, self._bias[:columns], out=tail)
