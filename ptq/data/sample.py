"""Sets of samples: streamed, re-iterable, and split without being read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from ptq.core.errors import UsageError
from ptq.data.labelling import Labelling
from ptq.data.opened_sources import open_once
from ptq.data.preparation import Preparation
from ptq.data.sample_digest import combine_digests
from ptq.data.sample_source import BadSample, FoundSamples, Sample, SampleSource, refuse_bad

__all__ = ["BadSample", "FoundSamples", "Sample", "SampleSource", "Samples"]


class Origin(Protocol):
    """Opens the source of samples in another process; it can be pickled."""

    @property
    def finds_samples(self) -> bool:
        """Whether a sample is found without reading those before it."""

    @property
    def is_local(self) -> bool:
        """Whether the samples are in files of this machine."""

    def __call__(self) -> Samples:
        """All samples of the source."""


class Samples:
    """Samples in a fixed order; each iteration reads them anew, one at a time.

    Attributes:
        shard_of: (k, n): these are every n-th sample of their listing from the k-th on; (0, 1) are all.
        origin: Opens the same source in another process, and can be pickled; None if there is no such way.
    """

    def __init__(
        self,
        source: SampleSource,
        positions: Sequence[int] | None = None,
        *,
        skip_bad: bool = False,
        known: FoundSamples | None = None,
        listed: Sequence[int] | None = None,
        shard_of: tuple[int, int] = (0, 1),
        origin: Origin | None = None,
    ) -> None:
        """``positions`` are ascending; None means all. ``known`` is what reading the source has shown so far.

        ``listed`` are the positions of the listing of which these samples are the shard ``shard_of``. None if they
        are the whole listing.
        """
        self._source = source
        self._positions = positions
        self._skip_bad = skip_bad
        self._known = FoundSamples() if known is None else known
        self._listed = listed
        self.shard_of, self.origin = shard_of, origin

    def __iter__(self) -> Iterator[Sample]:
        empty = True
        for sample in self.read_good():
            empty = False
            yield sample
        self.require_good(empty=empty)

    @property
    def skipped(self) -> list[tuple[str, str]]:
        """Name and reason of each bad sample that was left out so far, in the order of the samples."""
        bad = self._known.bad
        return [
            bad[p]
            for p in (sorted(bad) if self._positions is None else self._positions)
            if p in bad
        ]

    def require_good(self, *, empty: bool) -> None:
        """Raise an error if an iteration gave no sample, because all of the source are bad, as far as is known.

        Some of the samples of a source may all be bad: the others decide then.
        """
        if empty and not self._known.digests:
            refuse_bad(self.skipped)

    def read_good(self) -> Iterator[Sample]:
        """The samples as by iteration; there may be none."""
        return (sample for sample in self.read_each() if sample is not None)

    def read_each(self) -> Iterator[Sample | None]:
        """The samples, and None for each bad one that is left out."""
        known = self._known
        positions = range(sys.maxsize) if self._positions is None else self._positions
        for position, item in zip(positions, self._source.read(positions), strict=False):
            if isinstance(item, Sample):
                known.bad.pop(position, None)
                if position not in known.digests:
                    known.digests[position] = item.digest
                    if item.pattern is not None:
                        known.patterns[position] = item.pattern
                yield item
            elif self._skip_bad:
                known.bad[position] = item.name, str(item.error)
                yield None
            else:
                raise item.error

    @property
    def found(self) -> FoundSamples:
        """What reading these samples has shown so far."""
        return self._known if self._positions is None else self._known.at(self._positions)

    def record(self, found: FoundSamples) -> None:
        """Take what another process has found of these samples."""
        self._known.update(found)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.origin is None:
            raise TypeError("samples from Python cannot be opened in another process")
        where = found if isinstance(found := self.positions, range) else tuple(found)
        known = FoundSamples(dict(self.digests))
        return _reopen, (self.origin, where, self._skip_bad, known, self.shard_of)

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
        return self.found.digests

    @property
    def digest(self) -> str:
        """Digest of all samples that were read so far, in any order; see `ptq.data.sample_digest`."""
        return combine_digests(self.digests.values())

    @property
    def listed_identities(self) -> Iterator[str]:
        """Identities of the listing of which these samples are the shard ``shard_of``."""
        return map(self._source.identity, self._listing[0])

    def digest_first_row(self) -> bytes:
        """Digest of the first row of the listing; empty if its samples have names, or if that row is bad."""
        first = next(iter(self._listing[0]), None)
        if first is None or self._source.identity(first) != str(first):
            return b""
        if first in self._known.digests:
            return self._known.digests[first]
        item = next(iter(self._source.read([first])), None)
        return item.digest if isinstance(item, Sample) else b""

    @property
    def digests_by_name(self) -> Iterator[tuple[str, bytes]]:
        """Identity and digest of each sample that was read so far; not of rows, whose identity is their number."""
        for position, digest in self.digests.items():
            if (identity := self._source.identity(position)) != str(position):
                yield identity, digest

    @property
    def fingerprints(self) -> Mapping[int, tuple[bytes, ...]]:
        """Digest of each sample that was read so far, and its pattern if it is an image, by position."""
        patterns = self._known.patterns
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

        Of a stream, whose length is unknown in advance, the first ``count``.
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
        where = first + index * stride, stride * count
        return self._select(self.positions[index::count], listed, where)

    def as_unread(self) -> Samples:
        """The same samples, of which none has been read."""
        found = self._select(self.positions, *self._listing)
        found._known = FoundSamples()
        return found

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
            known=self._known,
            listed=listed,
            shard_of=shard_of,
            origin=self.origin,
        )


def _reopen(
    origin: Origin,
    positions: Sequence[int],
    skip_bad: bool,
    known: FoundSamples,
    shard_of: tuple[int, int],
) -> Samples:
    source = open_once(origin)._source
    return Samples(
        source, positions, skip_bad=skip_bad, known=known, shard_of=shard_of, origin=origin
    )
