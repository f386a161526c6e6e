"""Some values of each channel of a tensor, from which the statistics with any factor for each channel follow.

Of each sample, the extremes of every channel are kept, and values at regular distances. An extreme counts once, and
any other value for as many values as its distance. The tails of a range are thus kept whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import FloatArray
from ptq.observers.channel_range import find_channel_extremes
from ptq.observers.channel_spread import ChannelSpread, sum_squares_by_channel
from ptq.observers.channel_sums import ChannelSums
from ptq.observers.stats import TensorStats

_MAX_ARRAYS = 32
"""Arrays of values that are kept separately."""


@dataclass(frozen=True, eq=False)
class SampleValues:
    """Some values of a tensor on one sample.

    Attributes:
        count: Number of values of the tensor.
        spread: Extremes and energy of each channel.
        distance: Of so many values of a channel, one is kept.
        kept: The kept values, shape (channels, values).
        extremes: The extremes of each channel, shape (channels, 2).
    """

    count: int
    spread: ChannelSpread
    distance: int
    kept: FloatArray
    extremes: FloatArray


def take_values(array: NDArray[np.float32], axis: int | None, distance: int) -> SampleValues | None:
    """Some values of one sample's tensor: of each channel every value in ``distance``, and at least one.

    None if the tensor is empty.
    """
    if not array.size:
        return None
    axis = None if axis is None else axis % array.ndim
    before = 1 if axis is None else prod(array.shape[:axis])
    channels = 1 if axis is None else array.shape[axis]
    flat = array.reshape(before, channels, -1)
    least, greatest = find_channel_extremes(flat, 1)
    length = before * flat.shape[2]
    spread = ChannelSpread(least, greatest, sum_squares_by_channel(flat), length)
    distance = max(1, min(distance, flat.shape[2]))
    kept = flat[:, :, distance // 2 :: distance].transpose(1, 0, 2).reshape(channels, -1)
    extremes = np.stack([least, greatest], axis=1)
    return SampleValues(array.size, spread, distance, kept.copy(), extremes)


class ChannelValues:
    """Values of one tensor on some samples.

    Attributes:
        axis: The channel axis; None for a tensor without channels, which counts as one.
        spread: Extremes and energy of each channel; None before the first value.
        count: Number of values that were seen.
    """

    def __init__(self, axis: int | None) -> None:
        self.axis = axis
        self.spread: ChannelSpread | None = None
        self.count = 0
        self._kept: dict[int, list[FloatArray]] = {}
        self._extremes: list[FloatArray] = []

    def add(self, values: SampleValues) -> None:
        """Add one sample."""
        self.spread = values.spread if self.spread is None else self.spread | values.spread
        self.count += values.count
        _append(self._kept.setdefault(values.distance, []), values.kept)
        if values.distance > 1:
            _append(self._extremes, values.extremes)


def _append(arrays: list[FloatArray], added: FloatArray) -> None:
    """Add an array; many small ones become one, because each takes 100 bytes in addition to its values."""
    arrays.append(added)
    if len(arrays) > _MAX_ARRAYS:
        arrays[:] = [np.concatenate(arrays, axis=1)]


def to_stats(parts: Sequence[ChannelValues], factors: NDArray[np.float64] | None) -> TensorStats:
    """The statistics of all parts with each channel multiplied by its factor; estimates, except for the extremes."""
    stats = TensorStats()
    for distance, values in _list_kept_values(parts):
        of_distance = TensorStats()
        of_distance.update(_multiply(values, factors))
        stats = stats.merge(_repeat(of_distance, distance))
    extremes = [array for part in parts for array in part._extremes]
    if extremes:
        stats.update(_multiply(np.concatenate(extremes, axis=1), factors))
    return stats


def to_sums(parts: Sequence[ChannelValues], factors: NDArray[np.float64] | None) -> ChannelSums:
    """The sums by channel of the kept values, whose means estimate those of all values."""
    sums = ChannelSums(1)
    for _, values in _list_kept_values(parts):
        sums.update(_multiply(values, factors)[None])
    return sums


def _list_kept_values(parts: Sequence[ChannelValues]) -> Iterable[tuple[int, FloatArray]]:
    """The kept values by distance, of shape (channels, values)."""
    for distance in sorted({distance for part in parts for distance in part._kept}):
        kept = [array for part in parts for array in part._kept.get(distance, ())]
        yield distance, np.concatenate(kept, axis=1)


def _multiply(values: FloatArray, factors: NDArray[np.float64] | None) -> FloatArray:
    return values if factors is None else values * factors.astype(np.float32)[:, None]


def _repeat(stats: TensorStats, times: int) -> TensorStats:
    """The statistics with each value observed so many times."""
    arrays = stats.to_arrays()
    return TensorStats.from_arrays(
        {**arrays, "tally": arrays["tally"] * times, "counts": arrays["counts"] * times}
    )
