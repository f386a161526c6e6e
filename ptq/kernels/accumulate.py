"""How do exact sums become outputs? The bias is added and the arithmetic finishes them, in float32 where it can.

A channel whose weights are almost nothing has a bias of up to 2^31 units, far beyond what float32 holds exactly. Most
such channels are one constant whatever the input, and rounding the bias to float32 does not change it: a Finish is
monotone, so that the ends of a channel's range tell. The few others are completed in int32, apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import FloatArray, IntArray
from ptq.kernels import channel_broadcast
from ptq.kernels.exact_blas import AccumulationPlan
from ptq.kernels.requantizer import Requantizer

# Totals of a channel that are tried, from the least to the greatest; two would do but where a Finish wraps.
_PROBES = 33


@dataclass(frozen=True, eq=False)
class _PreparedBias:
    """What a Finish needs of the bias: the channels kept apart, their biases, and those of the others repeated."""

    requantize: Requantizer
    int32_channels: NDArray[np.intp]
    int32_bias: NDArray[np.int32]
    repeated_bias: NDArray[Any] | None


class OutputStage:
    """The second half of a planned sum.

    Attributes:
        dtype: What the accumulators must be held in: float32, or int32 where that is not exact.
    """

    def __init__(self, plan: AccumulationPlan) -> None:
        self.dtype = np.dtype(np.float32 if plan.exact else np.int32)
        self._plan = plan
        self._prepared: _PreparedBias | None = None

    def apply(self, acc: NDArray[Any], requantize: Requantizer) -> IntArray | FloatArray:
        """Add the bias to accumulators (rows, O), contiguous, and requantize them; they are overwritten.

        int32 holds them modulo 2^32.
        """
        completion = self._prepared
        if completion is None or completion.requantize is not requantize:
            completion = self._prepared = self._prepare_bias(requantize)
        every, apart = slice(0, acc.shape[1]), completion.int32_channels
        wide = acc[:, apart].astype(np.int32) + completion.int32_bias if apart.size else None
        if completion.repeated_bias is not None:
            channel_broadcast.apply_per_channel(np.add, acc, completion.repeated_bias, acc)
        q = requantize(acc, every)
        if wide is not None:
            q[:, apart] = requantize(wide, apart)
        return q

    def _prepare_bias(self, requantize: Requantizer) -> _PreparedBias:
        plan = self._plan
        apart = plan.inexact_channels[~_constant_channels(plan, requantize)]
        rest = plan.bias.copy()
        rest[apart] = 0
        bias = channel_broadcast.repeat_channels(rest.astype(self.dtype)) if np.any(rest) else None
        return _PreparedBias(requantize, apart, plan.bias[apart].astype(np.int32), bias)


def _constant_channels(plan: AccumulationPlan, requantize: Requantizer) -> NDArray[np.bool_]:
    """Which of the channels ``beyond`` give one output, added in float32 as in int32, whatever comes in."""
    beyond = plan.inexact_channels
    least, most, bias = (a[beyond] for a in (plan.min_total, plan.max_total, plan.bias))
    fits = (least >= -(2**31)) & (most < 2**31)
    if not np.any(fits):
        return fits
    totals = np.linspace(least, most, _PROBES).astype(np.int64)
    rounded = (totals - bias).astype(np.float32) + bias.astype(np.float32)
    exact = requantize(np.where(fits, totals, 0).astype(np.int32), beyond)
    alike = np.all(exact == exact[0], 0) & np.all(requantize(rounded, beyond) == exact[0], 0)
    constant: NDArray[np.bool_] = fits & alike
    return constant
