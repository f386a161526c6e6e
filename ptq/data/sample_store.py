"""Stores for samples that are read once: in memory, or in a temporary file, each of bounded size."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from ptq.core.errors import DataError, UsageError
from ptq.core.option_checks import parse_bytes, require_count
from ptq.data.sample import BadSample, Sample

MEMORY_BYTES = 256 * 2**20
"""Most bytes of samples that are kept in memory, for each set of samples."""
MIN_BYTES = 1000
"""A smaller cache holds no sample: its unit was forgotten."""

CacheOption = str | os.PathLike[str] | int
"""A folder, or a size: a number of bytes, or a text as ``20GB`` or ``512 MiB``."""


@dataclass(frozen=True)
class CacheLimits:
    """Where samples are kept on disk, and how many bytes at most.

    Attributes:
        folder: Folder of the temporary file; None for the system's folder of temporary files.
        size: Largest number of bytes; None for half of the free space.
    """

    folder: Path | None
    size: int | None


def parse_cache(option: CacheOption) -> CacheLimits:
    """Where to keep samples: in a folder, up to half of its free space; or up to a size in the temporary folder.

    Raises:
        UsageError: It is neither an existing folder nor a size, or too small to be meant.
    """
    if isinstance(option, (str, os.PathLike)):
        text = os.fspath(option)
        parsed = parse_bytes(text)
        if parsed is None:
            if not os.path.isdir(text):
                raise UsageError(
                    f"cache {text!r}: is neither a folder nor a size such as 20GB; create the folder",
                    "cache",
                )
            return CacheLimits(Path(text), None)
        option = parsed
    size = require_count("cache", option)
    if size < MIN_BYTES:
        raise UsageError(f"cache of {size} bytes is too small; give a size such as 20GB", "cache")
    return CacheLimits(None, size)


class SampleStore(Protocol):
    """Samples numbered 0, 1, 2 … in the order in which they were added.

    Attributes:
        limit: Most bytes of all samples.
    """

    limit: int

    def add(self, item: Sample | BadSample) -> bool:
        """Keep one more item; False if it does not fit."""
        ...

    def __getitem__(self, position: int) -> Sample | BadSample: ...


class MemoryStore:
    """Copies of samples in memory.

    Attributes:
        limit: Most bytes of all samples.
    """

    def __init__(self) -> None:
        self.limit = MEMORY_BYTES
        self._items: list[Sample | BadSample] = []
        self._bytes = 0

    def add(self, item: Sample | BadSample) -> bool:
        """Keep a copy: the source may write the next sample into the same array."""
        self._bytes += _count_bytes(item)
        if self._bytes > self.limit:
            return False
        self._items.append(copy_sample(item))
        return True

    def __getitem__(self, position: int) -> Sample | BadSample:
        return copy_sample(self._items[position])


@dataclass(frozen=True)
class _Stored:
    """A sample whose arrays are in a file from ``start`` on, one after the other."""

    name: str
    start: int
    layout: Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]]
    labels: tuple[int, ...]


class FileStore:
    """Samples in a temporary file without a name, which vanishes with the process.

    Attributes:
        limit: Most bytes of all samples.
    """

    def __init__(self, limits: CacheLimits) -> None:
        """Create the file; raise UsageError if that fails."""
        folder = Path(tempfile.gettempdir()) if limits.folder is None else limits.folder
        self._where = str(folder)
        try:
            free = shutil.disk_usage(folder).free
            self._file: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 # closed by finalize
        except OSError as error:
            raise UsageError(f"cache {folder}: cannot write there: {error.strerror}") from error
        weakref.finalize(self, _close, self._file)
        self.limit = free // 2 if limits.size is None else limits.size
        self._end = 0
        self._items: list[_Stored | BadSample] = []

    def add(self, item: Sample | BadSample) -> bool:
        """Append a sample to the file; False if it does not fit. Raise DataError if it cannot be written."""
        if isinstance(item, BadSample):
            self._items.append(item)
            return True
        if self._end + _count_bytes(item) > self.limit:
            return False
        start = self._end
        try:
            self._file.seek(start)
            for array in item.feed.values():
                self._file.write(array.tobytes())
            self._file.flush()  # what is still in its buffer would fail later, when it is read
        except OSError as error:
            raise DataError(f"cache in {self._where}: cannot write: {error.strerror}") from error
        self._end += _count_bytes(item)
        layout = {name: (array.dtype, array.shape) for name, array in item.feed.items()}
        self._items.append(_Stored(item.name, start, layout, item.labels))
        return True

    def __getitem__(self, position: int) -> Sample | BadSample:
        found = self._items[position]
        if isinstance(found, BadSample):
            return found
        self._file.seek(found.start)
        feed = {}
        for name, (dtype, shape) in found.layout.items():
            content = self._file.read(math.prod(shape) * dtype.itemsize)
            feed[name] = np.frombuffer(bytearray(content), dtype).reshape(shape)
        return Sample(found.name, feed, found.labels)


def _close(file: IO[bytes]) -> None:
    """Close a file that nothing reads any more, though the rest of its buffer may find no room."""
    with suppress(OSError):
        file.close()


def copy_sample(item: Sample | BadSample) -> Sample | BadSample:
    """The same sample with arrays of its own."""
    if isinstance(item, BadSample):
        return item
    return Sample(item.name, {name: a.copy() for name, a in item.feed.items()}, item.labels)


def _count_bytes(item: Sample | BadSample) -> int:
    return 0 if isinstance(item, BadSample) else item.nbytes
