"""How the inputs of layers with weights vary: covariances by layer, and what quantizing adds to their means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import QuantParams
from ptq.observers.covariance import Covariance


@dataclass
class MeanShift:
    """What rounding a node's input adds to the mean of each channel of it.

    Attributes:
        params: What it is rounded with.
        sums: float64 by channel, of what rounding added.
        count: Values of a channel.
    """

    params: QuantParams
    sums: NDArray[np.float64]
    count: int = 0

    @property
    def mean(self) -> NDArray[np.float64]:
        """By channel."""
        return self.sums / max(self.count, 1)


@dataclass(frozen=True, eq=False)
class InputStatistics:
    """How the inputs of weighted nodes vary, by node.

    Attributes:
        parts: All inputs of each.
        added: What rounding adds to them.
        wanted: What weights are to come near where that is not the model's own, shape (groups, K, sums).
    """

    blocks: Mapping[str, Sequence[CovarianceBlock]] = field(default_factory=dict)
    mean_shifts: Mapping[str, MeanShift] = field(default_factory=dict)
    target_weights: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class CovarianceBlock:
    """Some inputs of a node's sums, and how they vary; inputs of different parts count as independent.

    Attributes:
        inputs: Which.
        learnt: Over most samples.
        held: Over the others.
    """

    inputs: slice
    training: Covariance
    held_out: Covariance

    @property
    def all_samples(self) -> Covariance:
        """Over all samples."""
        return self.training.merge(self.held_out)
