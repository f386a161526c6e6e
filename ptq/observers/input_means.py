"""Mean of each channel of a tensor, and what quantization adds to it, for bias correction."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import QuantParams
from ptq.observers.calibration_file import Calibration
from ptq.observers.quantization_error import compute_mean_error


@dataclass(frozen=True, eq=False)
class InputMean:
    """Mean of a tensor, and its shift by quantization.

    Attributes:
        float_mean: float64, the mean of each channel of the float tensor.
        mean_shift: What quantization adds to the mean of each channel, or one number for all channels.
    """

    float_mean: NDArray[np.float64]
    mean_shift: float | NDArray[np.float64]


def find_float_means(
    calibration: Calibration, names: Container[str]
) -> dict[str, NDArray[np.float64]]:
    """The mean of each channel of the named tensors, float64, if they were summed by channel."""
    means = {n: sums.mean for n, sums in calibration.channels.items() if n in names}
    return {name: mean for name, mean in means.items() if mean is not None}


def compute_input_means(
    calibration: Calibration, params: Mapping[str, QuantParams]
) -> dict[str, InputMean]:
    """Means of the tensors that were summed by channel and are quantized.

    If the values of a tensor were summed but not counted, its mean shift is 0.
    """
    means = {}
    for name, float_mean in find_float_means(calibration, params).items():
        stats = calibration.tensors.get(name)
        counted = stats is not None and stats.count > 0
        mean_shift = (
            compute_mean_error(stats, params[name]) if counted and stats is not None else 0.0
        )
        means[name] = InputMean(float_mean, mean_shift)
    return means
