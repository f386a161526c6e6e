"""Samples at known positions, read once and kept on disk or in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ptq.data.sample import BadSample, Sample, SampleSource
from ptq.data.sample_store import CacheLimits, FileStore, MemoryStore, SampleStore
from ptq.data.wrapped_source import WrappedSource


class CachedSource(WrappedSource):
    """A source whose samples are kept from their first reading on, as far as the cache has room."""

    def __init__(self, source: SampleSource, cache: CacheLimits | None) -> None:
        """Read nothing yet; keep in memory without a cache. Raise UsageError if the cache cannot be created."""
        super().__init__(source)
        self._store: SampleStore = MemoryStore() if cache is None else FileStore(cache)
        self._kept: dict[int, int] = {}

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
