"""SmoothQuant factors of the channels that matrix products read.

The channels are multiplied anyway (see `ptq.optimization.outlier_splitting`), so factors cost nothing; the rows of
the weights are divided by them. Xiao et al. 2023, "SmoothQuant: Accurate and Efficient Post-Training Quantization for
Large Language Models". The factors are those of one family of channels, see `ptq.optimization.channel_families`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptq.observers.channel_spread import ChannelSpread
from ptq.optimization.channel_families import (
    MIN_RATIO,
    ChannelFamily,
    ReadingLayer,
    RoundedTensor,
    raise_small,
)


def compute_smoothquant_factors(
    spread: ChannelSpread, weight: NDArray[np.float32], kept: NDArray[np.bool_], exponent: float
) -> NDArray[np.float64]:
    """The factor of each channel, about 1 in the geometric mean; 0 for channels that are not kept.

    Args:
        spread: The spread of the channels.
        weight: The weights of all products of the tensor, shape (channels, sums).
        kept: Whether each channel is rounded.
        exponent: How a channel's reach is measured: 0 by its root mean square, 1 by its extremes, which other
            samples may exceed; between the two by their weighted geometric mean.
    """
    factors = np.zeros(len(kept))
    count = int(kept.sum())
    if not count:
        return factors
    groups = np.arange(count)
    least = np.minimum(spread.least[kept].astype(np.float64), 0.0)
    greatest = np.maximum(spread.greatest[kept].astype(np.float64), 0.0)
    mean_squares = spread.sum_of_squares[kept] / spread.count
    extremes = np.maximum(-least, greatest)
    reach = raise_small(np.sqrt(mean_squares) ** (1 - exponent) * extremes**exponent, MIN_RATIO)
    matrix = np.abs(weight[kept].astype(np.float64))
    energies = np.square(matrix).sum(axis=1)
    family = ChannelFamily(
        np.ones(count, bool),
        [RoundedTensor(groups, least, greatest, reach)],
        [ReadingLayer(groups, mean_squares, matrix.T[None], energies, 1)],
        MIN_RATIO,
    )
    factors[kept] = family.best_factors(np.full(count, np.inf), 1.0)
    return factors
