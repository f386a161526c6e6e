"""A stream of samples that is read once and kept, or compared with its first pass each time it is read anew.

A quantization reads its samples more than ten times. Each pass must give the same samples in the same order. Held-out
samples would otherwise mix with those that set ranges. A stream from Python is therefore read once and kept:

1. in a cache on disk, if the user gives one;
2. in memory, up to 256 MiB;
3. beyond that not at all: each pass reads it anew and compares every sample with the first pass, by content.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from ptq.core.errors import DataError
from ptq.data.labelling import Labelling
from ptq.data.preparation import Preparation
from ptq.data.sample import BadSample, Sample, SampleSource
from ptq.data.sample_store import CacheLimits, FileStore, MemoryStore, SampleStore, copy_sample

_Content = tuple[bytes | str, tuple[int, ...]]

_DIFFERENT = (
    ", unlike on the first pass over the data; give the same samples in the same order on each pass "
    "(no shuffling, no random augmentation), or keep those of one pass in a cache on disk (option cache)"
)


class ReadOnceSource:
    """The samples of a stream, the same on each pass."""

    def __init__(
        self, stream: SampleSource, cache: CacheLimits | None, *, repeatable: bool
    ) -> None:
        """Read nothing yet.

        Args:
            stream: The samples; each call of ``read`` starts it anew.
            cache: Where samples are kept; None for memory.
            repeatable: Whether the stream can be read more than once.
        """
        self._stream = stream
        self._cache = cache
        self._repeatable = repeatable
        self._contents: dict[int, _Content] = {}
        self._count: int | None = None
        self._store: SampleStore | None = None
        self._first_pass: Iterator[Sample | BadSample] | None = None
        self._start()

    def _start(self) -> None:
        self._store = MemoryStore() if self._cache is None else FileStore(self._cache)
        self._first_pass = None
        self._contents.clear()

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the class folders; a stream has none."""
        return self._stream.classes

    @property
    def preprocess(self) -> Preparation | None:
        """The preprocessing of each image; None for arrays."""
        return self._stream.preprocess

    @property
    def labelling(self) -> Labelling:
        """Where the labels come from."""
        return self._stream.labelling

    def positions(self, at_most: int | None = None) -> range:
        """All positions, or the first ``at_most``; the samples are read and kept."""
        self._fill(at_most)
        if self._store is not None or self._count is not None:
            return range(len(self._contents) if self._count is None else self._count)[:at_most]
        wanted = itertools.count() if at_most is None else range(at_most)
        count = sum(1 for _ in self._read_anew(wanted))
        self._count = count if at_most is None else None
        return range(count)

    def name(self, position: int) -> str:
        """The stream and the index."""
        return self._stream.name(position)

    def identity(self, position: int) -> str:
        """The index."""
        return self._stream.identity(position)

    def highest_label(self, positions: Sequence[int] | None) -> int:
        """Highest label of the samples that were read so far; -1 if none is known."""
        known = self._contents if positions is None else positions
        return max(
            (label for p in known if p in self._contents for label in self._contents[p][1]),
            default=-1,
        )

    def read(self, positions: Iterable[int]) -> Iterator[Sample | BadSample]:
        """Samples at ascending positions.

        Raises:
            DataError: The stream gives other samples than on its first pass, or cannot be read again.
        """
        remaining = iter(positions)
        for position in remaining:
            self._fill(position + 1)
            if self._store is None:
                yield from self._read_anew(itertools.chain([position], remaining))
                return
            if position >= len(self._contents):
                return
            yield self._store[position]

    def _fill(self, count: int | None) -> None:
        """Keep the first ``count`` samples (None: all); stop keeping any if they do not fit."""
        if self._first_pass is None and self._store is not None:
            self._first_pass = iter(self._stream.read(itertools.count()))
        while self._store is not None and self._count is None:
            known = len(self._contents)
            if count is not None and known >= count:
                return
            try:
                item = next(self._first_pass, None) if self._first_pass is not None else None
                if item is None:
                    self._count = known
                    return
                self._contents[known] = _get_content(item)
                kept = self._store.add(item)
            except BaseException:  # an interrupted pass is not the whole stream
                self._start()
                raise
            if not kept:
                self._stop_keeping(item.name, self._store.limit)

    def _stop_keeping(self, name: str, limit: int) -> None:
        if self._cache is not None:
            raise DataError(
                f"{name}: the cache is full, it may hold {limit} bytes; give a larger one or fewer samples"
            )
        if not self._repeatable:
            raise DataError(
                f"{name}: the samples up to here exceed {limit >> 20} MiB of memory, and the data can be read only "
                "once; keep them in a cache on disk (option cache), or give a callable"
            )
        self._store = self._first_pass = None

    def _read_anew(self, positions: Iterable[int]) -> Iterator[Sample | BadSample]:
        here, there = itertools.tee(positions)
        items = iter(self._stream.read(there))
        for position in here:
            item = next(items, None)
            if item is None:
                if position in self._contents:
                    raise DataError(f"{self.name(position)}: is missing{_DIFFERENT}")
                return
            content = _get_content(item)
            if self._contents.setdefault(position, content) != content:
                raise DataError(f"{item.name}: is another sample{_DIFFERENT}")
            yield copy_sample(item)  # the stream may write the next one into the same array


def _get_content(item: Sample | BadSample) -> _Content:
    """What must be equal on each pass."""
    if isinstance(item, BadSample):
        return str(item.error), ()
    return item.digest, item.labels
