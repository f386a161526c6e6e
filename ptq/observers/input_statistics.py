"""Statistics of the inputs of layers with weights: covariances, and mean shifts by quantization."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import QuantParams
from ptq.observers.covariance import Covariance


@dataclass
class MeanShift:
    """What rounding a node's input adds to the mean of each of its channels.

    Attributes:
        params: Scale and zero point of the input.
        sums: float64 by channel, the sum of the rounding errors.
        count: Number of values of one channel.
    """

    params: QuantParams
    sums: NDArray[np.float64]
    count: int = 0

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean rounding error of each channel."""
        return self.sums / max(self.count, 1)


@dataclass(frozen=True, eq=False)
class InputStatistics:
    """Statistics of the inputs of nodes with weights, by node name.

    Attributes:
        blocks: Covariance blocks of each node; together they cover all its inputs.
        mean_shifts: What rounding adds to the mean of each node's input.
        target_weights: Weights to approximate, shape (groups, K, sums), for nodes whose target is not their own
            weight.
    """

    blocks: Mapping[str, Sequence[CovarianceBlock]] = field(default_factory=dict)
    mean_shifts: Mapping[str, MeanShift] = field(default_factory=dict)
    target_weights: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class CovarianceBlock:
    """Covariance of some inputs of a node's sums. Inputs of different blocks count as independent.

    Attributes:
        inputs: The inputs of the block.
        training: Over the training samples, which are most of the samples.
        held_out: Over the held-out samples.
    """

    inputs: slice
    training: Covariance
    held_out: Covariance

    @property
    def all_samples(self) -> Covariance:
        """Covariance over all samples."""
        return self.training.merge(self.held_out)
