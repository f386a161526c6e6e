"""Exact sums of each channel of a tensor over all samples, and the mean.

The sum of a channel over one sample is split into a whole number and a fraction in units of 2^-40. Both are added as
integers. The sums are therefore the same, bit for bit, for every order, batch size and sharding of the samples. They
are exact where the sums of the samples add up to less than 2^63, which 2^11 samples of the largest sum may exceed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import StatsError
from ptq.observers.npz_bytes import have_equal_arrays

_FRACTION = 2.0**40
_CARRY_BIT = 62
"""Fractions from 2^62 on, of 2^22 samples and more, are whole numbers, so that no fraction exceeds int64."""
_LARGEST = 2.0**52
"""Largest sum of one sample. Above it, float64 has no bits for the fraction."""
_WAITING = 2**13
"""Sums of samples that are split together, at most: splitting those of a few samples takes longer than summing."""
_SPLITTING = Lock()


class ChannelSums:
    """Sums by channel, accumulated by `update` and `merge`.

    Several threads may read the sums at once, also the first time.

    Attributes:
        axis: The channel axis.
    """

    def __init__(self, axis: int) -> None:
        self.axis = axis
        self._count = self._skipped_samples = 0
        self._sums: NDArray[np.int64] | None = None
        self._waiting: list[tuple[NDArray[np.float64], int]] = []

    def __getstate__(self) -> dict[str, Any]:
        """Without the sums of single samples, which may take more bytes than their total."""
        self._split_waiting()
        return self.__dict__

    @property
    def count(self) -> int:
        """Number of observed values of one channel."""
        self._split_waiting()
        return self._count

    @property
    def skipped_samples(self) -> int:
        """Number of samples left out because a sum was not finite or above 2^52."""
        self._split_waiting()
        return self._skipped_samples

    @property
    def sums(self) -> NDArray[np.int64] | None:
        """int64, shape (2, channels): whole numbers, and fractions in units of 2^-40; None without a sample."""
        self._split_waiting()
        return self._sums

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ChannelSums):
            return NotImplemented
        return have_equal_arrays(self.to_arrays(), other.to_arrays())

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
        self._check_channels(channels)
        self._waiting.append((sums, samples.size // channels // len(samples)))
        if sum(array.size for array, _ in self._waiting) > _WAITING:
            self._split_waiting()

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
        both._skipped_samples = self.skipped_samples + other.skipped_samples
        for each in (self, other):
            if each.sums is not None:
                both._check_channels(each.sums.shape[1])
                both._add_sums(each.sums)
                both._count += each.count
        return both

    def _check_channels(self, count: int) -> None:
        known = self._waiting[0][0] if self._waiting else self._sums
        if known is not None and known.shape[1] != count:
            raise StatsError(
                f"the number of channels of a tensor has changed from {known.shape[1]} to {count}; the channel axis "
                "must have a fixed length"
            )

    def _split_waiting(self) -> None:
        """Add the sums that wait, split into whole numbers and fractions."""
        if not self._waiting:
            return
        with _SPLITTING:
            waiting = self._waiting
            if waiting:
                self._split(waiting)
            self._waiting = []  # last: who sees that none waits reads the sums

    def _split(self, waiting: Sequence[tuple[NDArray[np.float64], int]]) -> None:
        sums = np.concatenate([array for array, _ in waiting])
        counts = np.repeat([n for _, n in waiting], [len(a) for a, _ in waiting])
        kept = np.all(np.abs(sums) < _LARGEST, axis=1)
        self._skipped_samples += int(np.count_nonzero(~kept))
        self._count += int(counts[kept].sum())
        floor = np.floor(sums[kept])
        fraction = np.rint((sums[kept] - floor) * _FRACTION).astype(np.int64)
        found = np.stack([floor.astype(np.int64).sum(axis=0), fraction.sum(axis=0)])
        self._add_sums(found)

    def _add_sums(self, sums: NDArray[np.int64]) -> None:
        whole, fraction = sums if self._sums is None else self._sums + sums
        carried = (fraction >> _CARRY_BIT) * int(2**_CARRY_BIT / _FRACTION)
        self._sums = np.stack([whole + carried, fraction & (2**_CARRY_BIT - 1)])

    @property
    def mean(self) -> NDArray[np.float64] | None:
        """float64 by channel; None if there was no sample or one was left out."""
        if self.sums is None or self.skipped_samples:
            return None
        whole, fraction = self.sums
        mean: NDArray[np.float64] = (whole + fraction / _FRACTION) / self.count
        return mean

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The sums as named arrays; equal sums give equal arrays."""
        arrays: dict[str, NDArray[Any]] = {
            "tally": np.array([self.axis, self.count, self.skipped_samples], np.int64)
        }
        if self.sums is not None:
            arrays["sums"] = self.sums
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
            if min(count, skipped) < 0:
                raise ValueError("negative counts")
            sums._count, sums._skipped_samples = count, skipped
            if "sums" in arrays:
                whole, fraction = arrays["sums"].astype(np.int64, casting="safe")
                sums._sums = np.stack([whole, fraction])
        except (KeyError, ValueError, TypeError) as error:
            raise StatsError(f"sums by channel are damaged ({error}); calibrate again") from None
        return sums
