"""Statistics of the inputs of layers with weights: covariances, and mean shifts by quantization."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import QuantParams
from ptq.observers.covariance import Covariance, PooledCovariance


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
        blocks: Covariance blocks of each node; together they cover all its inputs. Nodes that share a weight and the
            scale of their inputs have the same blocks.
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
        return self.training.merge(self.held_out) if self.held_out.count else self.training

    def merge(self, other: CovarianceBlock) -> CovarianceBlock:
        """The block of more samples."""
        training, held_out = (
            self.training.merge(other.training),
            self.held_out.merge(other.held_out),
        )
        return CovarianceBlock(self.inputs, training, held_out)


@dataclass(frozen=True, eq=False)
class PooledBlock:
    """The covariance blocks of the same inputs of all uses of one weight.

    Attributes:
        uses: The block of each use, with the scale of its input relative to one scale for all.
    """

    uses: Sequence[tuple[CovarianceBlock, float]]

    @property
    def inputs(self) -> slice:
        """The inputs of the block."""
        return self.uses[0][0].inputs

    @property
    def training(self) -> PooledCovariance:
        """Over the training samples of all uses."""
        return PooledCovariance([(block.training, scale) for block, scale in self.uses])

    @property
    def held_out(self) -> PooledCovariance:
        """Over the held-out samples of all uses."""
        return PooledCovariance([(block.held_out, scale) for block, scale in self.uses])

    @property
    def all_samples(self) -> PooledCovariance:
        """Over all samples of all uses."""
        return PooledCovariance([(block.all_samples, scale) for block, scale in self.uses])


def pool_blocks(
    uses: Sequence[tuple[Sequence[CovarianceBlock], float]],
) -> Sequence[CovarianceBlock | PooledBlock]:
    """The blocks of a weight with several uses.

    Args:
        uses: The blocks of each use, with the scale of its input. Uses with the same blocks count once.
    """
    different = list({id(blocks): (blocks, scale) for blocks, scale in uses}.values())
    first, common = different[0]
    if len(different) == 1:
        return first
    return [
        PooledBlock([(blocks[k], scale / common) for blocks, scale in different])
        for k in range(len(first))
    ]
