"""Mean of each channel of a tensor, and what quantization adds to it, for bias correction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import QuantParams
from ptq.observers.calibration_file import Calibration
from ptq.observers.quantization_error import mean_error


@dataclass(frozen=True, eq=False)
class InputMean:
    """Mean of a tensor, and its shift by quantization.

    Attributes:
        float_mean: float64, the mean of each channel of the float tensor.
        mean_shift: What quantization adds to the mean of each channel, or one number for all channels.
    """

    float_mean: NDArray[np.float64]
    mean_shift: float | NDArray[np.float64]


def input_means(
    calibration: Calibration, params: Mapping[str, QuantParams]
) -> dict[str, InputMean]:
    """Means of the tensors that were summed by channel and are quantized.

    If the values of a tensor were summed but not counted, its mean shift is 0.
    """
    means = {}
    for name, sums in calibration.channels.items():
        float_mean, stats = sums.mean, calibration.tensors.get(name)
        if float_mean is None or name not in params:
            continue
        counted = stats is not None and stats.count > 0
        mean_shift = mean_error(stats, params[name]) if counted and stats is not None else 0.0
        means[name] = InputMean(float_mean, mean_shift)
    return means
