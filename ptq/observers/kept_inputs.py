"""Inputs of a few layers on samples, kept from one run of the float model for a later stage."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LIMIT = 2**27
"""Bytes that are kept; of larger inputs nothing is kept, and the later stage runs the model again."""


class KeptInputs:
    """Values of some tensors of the float model, by sample."""

    def __init__(self, names: Collection[str] = ()) -> None:
        """Take the names of the tensors to keep; none keeps nothing."""
        self.names = frozenset(names)
        self._by_sample: dict[str, dict[str, NDArray[Any]]] = {}
        self._bytes = 0

    def add(
        self, samples: Sequence[str], tensors: Mapping[str, NDArray[Any] | Sequence[NDArray[Any]]]
    ) -> None:
        """Copy the values of several samples.

        Args:
            samples: The names of the samples.
            tensors: By tensor, the array of each sample.
        """
        for name in self.names.intersection(tensors):
            for sample, array in zip(samples, tensors[name], strict=True):
                self._by_sample.setdefault(sample, {})[name] = np.array(array)
                self._bytes += array.nbytes
        if self._bytes > _LIMIT:
            self.clear()

    def merge(self, other: KeptInputs) -> None:
        """Take the values of other samples."""
        if not other.names:
            self.clear()
        if self.names:
            self._by_sample |= other._by_sample
            self._bytes += other._bytes
        if self._bytes > _LIMIT:
            self.clear()

    def has(self, names: Collection[str], samples: Collection[str]) -> bool:
        """Whether these tensors are known on all these samples."""
        return all(self._by_sample.get(sample, {}).keys() >= set(names) for sample in samples)

    def read(self, samples: Sequence[str]) -> Iterator[tuple[str, dict[str, NDArray[Any]]]]:
        """Each of the samples with its values."""
        for sample in samples:
            yield sample, self._by_sample[sample]

    def clear(self) -> None:
        """Free the memory; from then on nothing is kept."""
        self.names = frozenset()
        self._by_sample = {}
