"""Output stage of a planned sum: accumulators plus bias, requantized, in float32 wherever that is exact.

A channel with almost zero weights has a bias of up to 2^31 units, far beyond the integers that float32 holds exactly.
Most channels of this kind are constant for all inputs, and rounding the bias to float32 does not change the constant.
A requantizer is monotone, so the ends of a channel's range prove that. The few other channels are added in int32.
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

# Totals of a channel that are tested, from the least to the greatest. Two suffice unless the requantizer wraps.
_PROBES = 33


@dataclass(frozen=True, eq=False)
class _PreparedBias:
    """The bias as one requantizer needs it.

    Attributes:
        requantize: The requantizer.
        int32_channels: Channels that are added in int32.
        int32_bias: Their biases.
        repeated_bias: Biases of all channels, 0 for those in int32, repeated (`repeat_channels`); None if all are 0.
    """

    requantize: Requantizer
    int32_channels: NDArray[np.intp]
    int32_bias: NDArray[np.int32]
    repeated_bias: NDArray[Any] | None


class OutputStage:
    """Second half of a planned sum: from accumulators to outputs.

    Attributes:
        dtype: Type that the accumulators must have: float32, or int32 if float32 is not exact.
    """

    def __init__(self, plan: AccumulationPlan) -> None:
        self.dtype = np.dtype(np.float32 if plan.exact else np.int32)
        self._plan = plan
        self._prepared: _PreparedBias | None = None

    def apply(self, acc: NDArray[Any], requantize: Requantizer) -> IntArray | FloatArray:
        """Add the bias to accumulators and requantize them; the accumulators are overwritten.

        Args:
            acc: Shape (rows, O), contiguous; int32 accumulators are modulo 2^32.
            requantize: The requantizer.
        """
        prepared = self._prepared
        if prepared is None or prepared.requantize is not requantize:
            prepared = self._prepared = self._prepare_bias(requantize)
        channels, inexact = slice(0, acc.shape[1]), prepared.int32_channels
        wide = acc[:, inexact].astype(np.int32) + prepared.int32_bias if inexact.size else None
        if prepared.repeated_bias is not None:
            channel_broadcast.apply_per_channel(np.add, acc, prepared.repeated_bias, acc)
        q = requantize(acc, channels)
        if wide is not None:
            q[:, inexact] = requantize(wide, inexact)
        return q

    def _prepare_bias(self, requantize: Requantizer) -> _PreparedBias:
        plan = self._plan
        inexact = plan.inexact_channels[~_find_constant_channels(plan, requantize)]
        rest = plan.bias.copy()
        rest[inexact] = 0
        bias = channel_broadcast.repeat_channels(rest.astype(self.dtype)) if np.any(rest) else None
        return _PreparedBias(requantize, inexact, plan.bias[inexact].astype(np.int32), bias)


def _find_constant_channels(plan: AccumulationPlan, requantize: Requantizer) -> NDArray[np.bool_]:
    """Return which of the plan's inexact channels give one output for all inputs, in float32 as in int32."""
    inexact = plan.inexact_channels
    least, most, bias = (a[inexact] for a in (plan.min_total, plan.max_total, plan.bias))
    fits = (least >= -(2**31)) & (most < 2**31)
    if not np.any(fits):
        return fits
    totals = np.linspace(least, most, _PROBES).astype(np.int64)
    rounded = (totals - bias).astype(np.float32) + bias.astype(np.float32)
    exact = requantize(np.where(fits, totals, 0).astype(np.int32), inexact)
    is_constant = np.all(exact == exact[0], 0) & np.all(requantize(rounded, inexact) == exact[0], 0)
    constant: NDArray[np.bool_] = fits & is_constant
    return constant
