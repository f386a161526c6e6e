"""Samples at known positions, read once and kept on disk or in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ptq.data.labelling import Labelling
from ptq.data.preparation import Preparation
from ptq.data.sample import BadSample, Sample, SampleSource
from ptq.data.sample_store import CacheLimits, FileStore, MemoryStore, SampleStore


class CachedSource:
    """A source whose samples are kept from their first reading on, as far as the cache has room."""

    def __init__(self, source: SampleSource, cache: CacheLimits | None) -> None:
        """Read nothing yet; keep in memory without a cache. Raise UsageError if the cache cannot be created."""
        self._source = source
        self._store: SampleStore = MemoryStore() if cache is None else FileStore(cache)
        self._kept: dict[int, int] = {}

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the class folders, in label order."""
        return self._source.classes

    @property
    def preprocess(self) -> Preparation | None:
        """The preprocessing of each image, WAV file or text."""
        return self._source.preprocess

    @property
    def labelling(self) -> Labelling:
        """Where the labels come from."""
        return self._source.labelling

    def positions(self, at_most: int | None = None) -> range:
        """All positions, or the first ``at_most``."""
        return self._source.positions(at_most)

    def name(self, position: int) -> str:
        """Name of the sample in messages."""
        return self._source.name(position)

    def identity(self, position: int) -> str:
        """Text that stays the same if samples are added."""
        return self._source.identity(position)

    def highest_label(self, positions: Sequence[int] | None) -> int:
        """Highest label of the positions."""
        return self._source.highest_label(positions)

    def read(self, positions: Iterable[int]) -> Iterator[Sample | BadSample]:
        """Samples at ascending positions, from the cache if they are there."""
        wanted = list(positions)
        missing = [p for p in wanted if p not in self._kept]
        read = zip(missing, self._source.read(missing), strict=False)
        for position in wanted:
            if position in self._kept:
                yield self._store[self._kept[position]]
                continue
            found, item = next(read, (position, None))
            while item is not None and found < position:  # another pass has kept it in the meantime
                found, item = next(read, (position, None))
            if item is None:
                return
            if self._store.add(item):
                self._kept[position] = len(self._kept)
            yield item
