"""What is the mean of each channel of a tensor?

The sum of a channel over one sample is split into a whole number and a fraction in steps of 2^-40, and both are
added as integers: the same sums, bit for bit, in whatever order, batches or shards the samples arrive.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import StatsError

_FRACTION = 2.0**40
_LARGEST = 2.0**52  # the sum of a sample; beyond it float64 has no fraction left to keep


class ChannelSums:
    """Sums by channel, accumulated by `update` and `merge`.

    Attributes:
        axis: The channel axis.
        count: Values of one channel seen.
        lost: Samples left out because a sum was not finite or beyond 2^52.
        whole: int64, sums of whole parts by channel; None before the first sample.
        fraction: int64, sums of fractions in steps of 2^-40.
    """

    def __init__(self, axis: int) -> None:
        self.axis = axis
        self.count = self.skipped_samples = 0
        self.integer_sums: NDArray[np.int64] | None = None
        self.fraction_sums: NDArray[np.int64] | None = None

    def update(self, x: NDArray[Any]) -> None:
        """Add one sample's tensor.

        Raises:
            StatsError: The tensor has no such axis, or another number of channels than before.
        """
        self.update_batch(x[None])

    def update_batch(self, samples: NDArray[Any]) -> None:
        """Add several samples' tensors, stacked along a new first axis, each summed by itself.

        Raises:
            StatsError: The tensors have no such axis, or another number of channels than before.
        """
        rank = samples.ndim - 1
        if not -rank <= self.axis < rank:
            raise StatsError(f"an array of rank {rank} has no channel axis {self.axis}")
        if samples.size == 0:
            return
        axis = self.axis % rank + 1
        channels = samples.shape[axis]
        # in the tensor's own type, 2^-20 of the sum at worst: a third of the time of a pairwise sum
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
            raise StatsError("sums along different axes do not add up; calibrate both alike")
        both = ChannelSums(self.axis)
        both.skipped_samples = self.skipped_samples + other.skipped_samples
        for part in (self, other):
            if part.integer_sums is not None and part.fraction_sums is not None:
                both._add(part.integer_sums, part.fraction_sums, part.count)
        return both

    def _add(self, whole: NDArray[np.int64], fraction: NDArray[np.int64], count: int) -> None:
        if self.integer_sums is None or self.fraction_sums is None:
            self.integer_sums, self.fraction_sums = whole.copy(), fraction.copy()
        elif self.integer_sums.shape != whole.shape:
            raise StatsError(
                f"a tensor has {whole.size} channels where it had {self.integer_sums.size}; "
                "the channel axis must have a fixed length"
            )
        else:
            self.integer_sums, self.fraction_sums = (
                self.integer_sums + whole,
                self.fraction_sums + fraction,
            )
        self.count += count

    @property
    def mean(self) -> NDArray[np.float64] | None:
        """float64 by channel; None where nothing was seen or a sample was left out."""
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
            axis, count, lost = (int(n) for n in arrays["tally"])
            sums = cls(axis)
            sums.count, sums.skipped_samples = count, lost
            if "sums" in arrays:
                sums.integer_sums, sums.fraction_sums = arrays["sums"].astype(
                    np.int64, casting="safe"
                )
        except (KeyError, ValueError, TypeError) as error:
            raise StatsError(f"sums by channel are damaged ({error}); calibrate again") from None
        return sums
