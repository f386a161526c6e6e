"""What is the mean of a tensor by channel, and what does quantizing add to it?"""

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
    """The mean of a tensor.

    Attributes:
        real: float64 by channel.
        added: What quantizing adds to the mean of each channel, or one number for the whole tensor.
    """

    float_mean: NDArray[np.float64]
    mean_shift: float | NDArray[np.float64]


def input_means(
    calibration: Calibration, params: Mapping[str, QuantParams]
) -> dict[str, InputMean]:
    """The means of the tensors that were summed by channel and are quantized.

    Where a tensor was summed but its values were not counted, nothing is known to be added.
    """
    means = {}
    for name, sums in calibration.channels.items():
        real, stats = sums.mean, calibration.tensors.get(name)
        if real is None or name not in params:
            continue
        counted = stats is not None and stats.count > 0
        added = mean_error(stats, params[name]) if counted and stats is not None else 0.0
        means[name] = InputMean(real, added)
    return means
