"""What is a sample, and a set of them: streamed, re-iterable, cut into parts without being read."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError, UsageError
from ptq.data.preprocess import Preprocess


@dataclass(frozen=True, eq=False)
class Sample:
    """One feed of the model.

    Attributes:
        name: The file or row it came from, e.g. ``cats/7.png`` or ``data.npz[12]``; for messages.
        feed: Arrays by input name, shaped and typed as the model takes them.
        labels: The acceptable classes; empty where the sample is unlabelled.
    """

    name: str
    feed: dict[str, NDArray[Any]]
    labels: tuple[int, ...] = ()


class SampleSource(Protocol):
    """Where samples come from; every position is one sample, in a fixed order."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the class folders, in label order; empty where there are none."""
        ...

    @property
    def preprocess(self) -> Preprocess | None:
        """What is applied to each image; None where samples are arrays already."""
        ...

    def positions(self, at_most: int | None = None) -> range:
        """All positions, or the first ``at_most``."""
        ...

    def name(self, position: int) -> str:
        """What messages call the sample."""
        ...

    def identity(self, position: int) -> str:
        """What stays the same when other samples are added: relative path, or index."""
        ...

    def highest_label(self, positions: Sequence[int] | None) -> int:
        """The highest label known of the positions (None: all) without reading them; -1 where none is."""
        ...

    def read(self, positions: Iterable[int]) -> Iterator[Sample | BadSample]:
        """The samples at ascending positions; a source of unknown length ends where it ends."""
        ...


class ArraySource:
    """Base of sources whose samples are arrays: no class folders, no preprocessing."""

    classes: tuple[str, ...] = ()
    preprocess: None = None


class IndexedSource(ArraySource):
    """Base of array sources that identify a sample by its index alone."""

    def __init__(self, title: str) -> None:
        """``title`` names the source in messages."""
        self._title = title

    def name(self, position: int) -> str:
        """The source and the index, e.g. ``data.npz[12]``."""
        return f"{self._title}[{position}]"

    def identity(self, position: int) -> str:
        """The index."""
        return str(position)


@dataclass(frozen=True)
class BadSample:
    """A sample that cannot be used.

    Attributes:
        name: The sample's name.
        error: Why it cannot be used.
    """

    name: str
    error: DataError


class Samples:
    """Samples in a fixed order; each iteration reads them anew, one at a time.

    Attributes:
        skipped: (name, reason) of each bad sample that the latest iteration left out.
    """

    def __init__(
        self,
        source: SampleSource,
        positions: Sequence[int] | None = None,
        *,
        skip_bad: bool = False,
    ) -> None:
        """``positions`` ascend; None stands for all, however many there are."""
        self._source = source
        self._positions = positions
        self._skip_bad = skip_bad
        self.skipped: list[tuple[str, str]] = []

    def __iter__(self) -> Iterator[Sample]:
        self.skipped = skipped = []
        empty = True
        positions = itertools.count() if self._positions is None else self._positions
        for item in self._source.read(positions):
            if isinstance(item, Sample):
                empty = False
                yield item
            elif self._skip_bad:
                skipped.append((item.name, str(item.error)))
            else:
                raise item.error
        if empty and skipped:
            raise DataError(f"all {len(skipped)} samples are bad; the first: {skipped[0][1]}")

    def __len__(self) -> int:
        """Number of samples, bad ones included; nothing is read, but a callable is run once."""
        return len(self.positions)

    @property
    def positions(self) -> Sequence[int]:
        """Positions in the source."""
        if self._positions is None:
            self._positions = self._source.positions()
        return self._positions

    @property
    def names(self) -> list[str]:
        """What messages call each sample."""
        return [self._source.name(p) for p in self.positions]

    @property
    def identities(self) -> list[str]:
        """Relative path of each file, or index of each row: what chooses the held-out samples."""
        return [self._source.identity(p) for p in self.positions]

    @property
    def highest_label(self) -> int:
        """The highest label that is known without reading the samples; -1 where none is."""
        return self._source.highest_label(self._positions)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the class folders, in label order; empty where there are none."""
        return self._source.classes

    @property
    def preprocess(self) -> Preprocess | None:
        """What is applied to each image, nothing left open; None where samples are arrays."""
        return self._source.preprocess

    def subset(self, which: Iterable[int] | Callable[[str], bool]) -> Samples:
        """The samples at some indices, or whose name satisfies a predicate; the order stays."""
        positions = self.positions
        if callable(which):
            return self._select([p for p in positions if which(self._source.name(p))])
        return self._select([positions[i] for i in sorted(set(which))])

    def first(self, count: int) -> Samples:
        """The first ``count`` samples, or all where there are fewer."""
        if self._positions is None:
            return self._select(self._source.positions(count))
        return self._select(self._positions[:count])

    def spread(self, count: int) -> Samples:
        """``count`` samples spaced evenly, so that sorted class folders all have their share.

        Of a callable, whose length is not known beforehand, the first ``count``.
        """
        if count < 1:
            raise UsageError(f"{count} samples are asked for; ask for at least 1")
        if self._positions is None:
            return self.first(count)
        total = len(self._positions)
        if count >= total:
            return self
        return self._select([self._positions[k * total // count] for k in range(count)])

    def shard(self, index: int, count: int) -> Samples:
        """Every ``count``-th sample from ``index`` on; shards 0 … count − 1 make the whole."""
        if not 0 <= index < count:
            raise UsageError(f"shard {index} of {count} does not exist; count from 0")
        return self._select(self.positions[index::count])

    def _select(self, positions: Sequence[int]) -> Samples:
        return Samples(self._source, positions, skip_bad=self._skip_bad)


def parse_labels(labels: Any, where: str) -> tuple[int, ...]:
    """The acceptable classes a label gives: an integer, a list of them, −1 or None for none."""
    if labels is None:
        return ()
    try:
        values = np.atleast_1d(np.asarray(labels))
    except ValueError:
        values = np.empty((1, 1))
    if values.ndim != 1 or (values.size and values.dtype.kind not in "iu"):
        said = " ".join(repr(labels).split())[:60]
        if isinstance(labels, np.ndarray) and labels.size > 1:
            said = f"of type {labels.dtype.name}"
        raise DataError(f"{where}: label {said} is not an integer or a list of integers")
    if values.size and int(values.min()) < -1:
        raise DataError(
            f"{where}: label {int(values.min())} is negative; -1 alone means unlabelled"
        )
    return tuple(dict.fromkeys(int(v) for v in values if v >= 0))
