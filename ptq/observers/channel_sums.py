"""Exact sums of each channel of a tensor over all samples, and the mean.

The sum of a channel over one sample is split into a whole number and a fraction in units of 2^-40. Both are added as
integers. The sums are therefore the same, bit for bit, for every order, batch size and sharding of the samples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import StatsError

_FRACTION = 2.0**40
_LARGEST = 2.0**52
"""Largest sum of one sample. Above it, float64 has no bits for the fraction."""


class ChannelSums:
    """Sums by channel, accumulated by `update` and `merge`.

    Attributes:
        axis: The channel axis.
        count: Number of observed values of one channel.
        skipped_samples: Number of samples left out because a sum was not finite or above 2^52.
        integer_sums: int64, sums of the whole numbers by channel; None before the first sample.
        fraction_sums: int64, sums of the fractions by channel, in units of 2^-40.
    """

    def __init__(self, axis: int) -> None:
        self.axis = axis
        self.count = self.skipped_samples = 0
        self.integer_sums: NDArray[np.int64] | None = None
        self.fraction_sums: NDArray[np.int64] | None = None

    def update(self, x: NDArray[Any]) -> None:
        """Add one sample's tensor.

        Raises:
            StatsError: The tensor does not have the axis, or the number of channels has changed.
        """
        self.update_batch(x[None])

    def update_batch(self, samples: NDArray[Any]) -> None:
        """Add the tensors of several samples, stacked along a new first axis. Each sample is summed separately.

        Raises:
            StatsError: The tensors do not have the axis, or the number of channels has changed.
        """
        rank = samples.ndim - 1
        if not -rank <= self.axis < rank:
            raise StatsError(f"an array of rank {rank} has no channel axis {self.axis}")
        if samples.size == 0:
            return
        axis = self.axis % rank + 1
        channels = samples.shape[axis]
        # in the tensor's own type: the error is at most 2^-20 of the sum, the time a third of a pairwise sum's
        lines = np.einsum("acl->ac", samples.reshape(math.prod(samples.shape[:axis]), channels, -1))
        sums = lines.reshape(len(samples), -1, channels).sum(axis=1, dtype=np.float64)
        kept = np.all(np.abs(sums) < _LARGEST, axis=1)
        self.skipped_samples += int(np.count_nonzero(~kept))
        floor = np.floor(sums[kept])
        fraction = np.rint((sums[kept] - floor) * _FRACTION).astype(np.int64)
        count = samples.size // channels // len(samples) * int(kept.sum())
        self._add(floor.astype(np.int64).sum(axis=0), fraction.sum(axis=0), count)

    def merge(self, other: ChannelSums) -> ChannelSums:
        """The sums of both; neither is changed.

        Raises:
            StatsError: They differ in axis or number of channels.
        """
        if self.axis != other.axis:
            raise StatsError(
                "the sums by channel have different axes; calibrate both with the same settings"
            )
        both = ChannelSums(self.axis)
        both.skipped_samples = self.skipped_samples + other.skipped_samples
        for each in (self, other):
            if each.integer_sums is not None and each.fraction_sums is not None:
                both._add(each.integer_sums, each.fraction_sums, each.count)
        return both

    def _add(self, integer: NDArray[np.int64], fraction: NDArray[np.int64], count: int) -> None:
        if self.integer_sums is None or self.fraction_sums is None:
            self.integer_sums, self.fraction_sums = integer.copy(), fraction.copy()
        elif self.integer_sums.shape != integer.shape:
            raise StatsError(
                f"the number of channels of a tensor has changed from {self.integer_sums.size} to "
                f"{integer.size}; the channel axis must have a fixed length"
            )
        else:
            self.integer_sums, self.fraction_sums = (
                self.integer_sums + integer,
                self.fraction_sums + fraction,
            )
        self.count += count

    @property
    def mean(self) -> NDArray[np.float64] | None:
        """float64 by channel; None if there was no sample or one was left out."""
        if self.integer_sums is None or self.fraction_sums is None or self.skipped_samples:
            return None
        return (self.integer_sums + self.fraction_sums / _FRACTION) / self.count

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The sums as named arrays; equal sums give equal arrays."""
        arrays: dict[str, NDArray[Any]] = {
            "tally": np.array([self.axis, self.count, self.skipped_samples], np.int64)
        }
        if self.integer_sums is not None and self.fraction_sums is not None:
            arrays["sums"] = np.stack([self.integer_sums, self.fraction_sums])
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> ChannelSums:
        """The inverse of `to_arrays`.

        Raises:
            StatsError: The arrays are not those of a tensor's sums.
        """
        try:
            axis, count, skipped = (int(n) for n in arrays["tally"])
            sums = cls(axis)
            sums.count, sums.skipped_samples = count, skipped
            if "sums" in arrays:
                sums.integer_sums, sums.fraction_sums = arrays["sums"].astype(
                    np.int64, casting="safe"
                )
        except (KeyError, ValueError, TypeError) as error:
            raise StatsError(f"sums by channel are damaged ({error}); calibrate again") from None
        return sums
