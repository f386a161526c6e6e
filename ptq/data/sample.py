"""Samples and sets of samples: streamed, re-iterable, and split without being read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from ptq.core.errors import DataError, UsageError
from ptq.data.image_pattern import digest_pattern
from ptq.data.labelling import Labelling
from ptq.data.preparation import Preparation
from ptq.data.sample_digest import combine_digests, digest_feed


@dataclass(frozen=True, eq=False)
class Sample:
    """One feed of the model.

    Attributes:
        name: File or row of the sample, e.g. ``cats/7.png`` or ``data.npz[12]``; for messages.
        feed: Arrays by input name, with the shapes and types of the model's inputs.
        labels: Acceptable classes; empty if the sample is not labelled.
    """

    name: str
    feed: dict[str, NDArray[Any]]
    labels: tuple[int, ...] = ()

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the feed: the identity of the sample by content."""
        return digest_feed(self.feed)

    @cached_property
    def pattern(self) -> bytes | None:
        """Identity of an image up to scale, mean and std (`ptq.data.image_pattern`); None for other samples."""
        return digest_pattern(self.feed)


class SampleSource(Protocol):
    """A source of samples in a fixed order; every position is one sample."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the class folders, in label order; empty if there are none."""
        ...

    @property
    def preprocess(self) -> Preparation | None:
        """Preprocessing of each image, WAV file or text; None if the samples are arrays."""
        ...

    @property
    def labelling(self) -> Labelling:
        """Where the labels come from, if there are any."""
        ...

    def positions(self, at_most: int | None = None) -> range:
        """All positions, or the first ``at_most``."""
        ...

    def name(self, position: int) -> str:
        """Name of the sample in messages."""
        ...

    def identity(self, position: int) -> str:
        """Text that stays the same if samples are added: relative path, or index."""
        ...

    def highest_label(self, positions: Sequence[int] | None) -> int:
        """Highest label of the positions (None: all) without reading samples; -1 if none is known."""
        ...

    def read(self, positions: Iterable[int]) -> Iterator[Sample | BadSample]:
        """Samples at ascending positions. A source of unknown length stops at its end."""
        ...


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
        skipped: Name and reason of each bad sample that the latest iteration left out.
        shard_of: (k, n): these are every n-th sample of their listing from the k-th on; (0, 1) are all.
    """

    def __init__(
        self,
        source: SampleSource,
        positions: Sequence[int] | None = None,
        *,
        skip_bad: bool = False,
        digests: dict[int, bytes] | None = None,
        patterns: dict[int, bytes] | None = None,
        listed: Sequence[int] | None = None,
        shard_of: tuple[int, int] = (0, 1),
    ) -> None:
        """``positions`` are ascending; None means all. The others are those of the source, as far as it was read.

        ``listed`` are the positions of the listing of which these samples are the shard ``shard_of``. None if they
        are the whole listing.
        """
        self._source = source
        self._positions = positions
        self._skip_bad = skip_bad
        self._digests = {} if digests is None else digests
        self._patterns = {} if patterns is None else patterns
        self._listed = listed
        self.shard_of = shard_of
        self.skipped: list[tuple[str, str]] = []

    def __iter__(self) -> Iterator[Sample]:
        self.skipped = skipped = []
        empty = True
        positions = range(sys.maxsize) if self._positions is None else self._positions
        for position, item in zip(positions, self._source.read(positions), strict=False):
            if isinstance(item, Sample):
                empty = False
                if position not in self._digests:
                    self._digests[position] = item.digest
                    if item.pattern is not None:
                        self._patterns[position] = item.pattern
                yield item
            elif self._skip_bad:
                skipped.append((item.name, str(item.error)))
            else:
                raise item.error
        if empty and skipped:
            raise DataError(f"all {len(skipped)} samples are bad; the first: {skipped[0][1]}")

    def __len__(self) -> int:
        """Number of samples, including bad ones. Nothing is read, but a callable is run once."""
        return len(self.positions)

    @property
    def positions(self) -> Sequence[int]:
        """Positions in the source."""
        if self._positions is None:
            self._positions = self._source.positions()
        return self._positions

    @property
    def folder(self) -> Path | None:
        """The folder that the names of the samples belong to; None without one."""
        return getattr(self._source, "folder", None)

    @property
    def names(self) -> list[str]:
        """What messages call each sample."""
        return [self._source.name(p) for p in self.positions]

    @property
    def every_name(self) -> list[str]:
        """The names of all samples of the source, of which these may be some."""
        return [self._source.name(p) for p in self._source.positions()]

    @property
    def identities(self) -> list[str]:
        """Relative path of each file, or index of each row. They determine the held-out samples."""
        return [self._source.identity(p) for p in self.positions]

    @property
    def digests(self) -> Mapping[int, bytes]:
        """Digest of each sample that was read so far, by position."""
        if self._positions is None:
            return self._digests
        return {p: self._digests[p] for p in self._positions if p in self._digests}

    @property
    def digest(self) -> str:
        """Digest of all samples that were read so far, in any order; see `ptq.data.sample_digest`."""
        return combine_digests(self.digests.values())

    @property
    def listed_identities(self) -> Iterator[str]:
        """Identities of the listing of which these samples are the shard ``shard_of``."""
        return map(self._source.identity, self._listing[0])

    @property
    def digests_by_name(self) -> Iterator[tuple[str, bytes]]:
        """Identity and digest of each sample that was read so far; not of rows, whose identity is their number."""
        for position, digest in self.digests.items():
            if (identity := self._source.identity(position)) != str(position):
                yield identity, digest

    @property
    def fingerprints(self) -> Mapping[int, tuple[bytes, ...]]:
        """Digest of each sample that was read so far, and its pattern if it is an image, by position."""
        patterns = self._patterns
        return {p: (d, patterns[p]) if p in patterns else (d,) for p, d in self.digests.items()}

    @property
    def highest_label(self) -> int:
        """Highest label that is known without reading the samples; -1 if none is known."""
        return self._source.highest_label(self._positions)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the class folders, in label order; empty if there are none."""
        return self._source.classes

    @property
    def preprocess(self) -> Preparation | None:
        """Complete preprocessing of each image, WAV file or text; None if the samples are arrays."""
        return self._source.preprocess

    @property
    def labelling(self) -> Labelling:
        """Where the labels come from, if there are any, and the class of each."""
        return self._source.labelling

    def subset(self, which: Iterable[int] | Callable[[str], bool]) -> Samples:
        """Samples at some indices, or whose name satisfies a predicate, in the same order."""
        positions = self.positions
        if callable(which):
            return self._select([p for p in positions if which(self._source.name(p))])
        return self._select([positions[i] for i in sorted(set(which))])

    def first(self, count: int) -> Samples:
        """The first ``count`` samples, or all if there are fewer."""
        if self._positions is None:
            return self._select(self._source.positions(count))
        return self._select(self._positions[:count])

    def read_first(self, count: int) -> Samples:
        """These samples, of which only the first ``count`` have been read."""
        first = self._select(self.positions[:count], *self._listing)
        for _ in first:
            pass
        return first

    def spread(self, count: int) -> Samples:
        """``count`` evenly spaced samples, so that every one of the sorted class folders has its share.

        Of a callable, whose length is unknown in advance, the first ``count``.
        """
        if count < 1:
            raise UsageError(f"samples {count} is not at least 1")
        if self._positions is None:
            return self.first(count)
        total = len(self._positions)
        if count >= total:
            return self
        return self._select([self._positions[k * total // count] for k in range(count)])

    def shard(self, index: int, count: int) -> Samples:
        """Every ``count``-th sample from ``index`` on. Shards 0 … count − 1 together are all samples."""
        if not 0 <= index < count:
            raise UsageError(f"shard {index} of {count} does not exist; count from 0")
        listed, (first, stride) = self._listing
        shard_of = (first + index * stride, stride * count)
        return self._select(self.positions[index::count], listed, shard_of)

    @property
    def _listing(self) -> tuple[Sequence[int], tuple[int, int]]:
        """The positions of the listing, and which shard of it these samples are."""
        return self.positions if self._listed is None else self._listed, self.shard_of

    def _select(
        self,
        positions: Sequence[int],
        listed: Sequence[int] | None = None,
        shard_of: tuple[int, int] = (0, 1),
    ) -> Samples:
        return Samples(
            self._source,
            positions,
            skip_bad=self._skip_bad,
            digests=self._digests,
            patterns=self._patterns,
            listed=listed,
            shard_of=shard_of,
        )
