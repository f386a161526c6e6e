"""Rows of one member of an .npz: at their place in the file if the member is stored, else from the zip stream.

A stored member is not compressed, as ``np.savez`` writes it. Whoever reads the last row of a member checks the
checksum of all its bytes.
"""

from __future__ import annotations

import math
import struct
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

_LOCAL_HEADER = 30
"""Bytes of the header of a member before its name."""
_NAME_AND_EXTRA = 26
"""Where the lengths of its name and of its further fields are."""
_ENCRYPTED = 1
_BLOCK = 2**20


class StreamedRows:
    """Rows at ascending positions from the zip stream; what is between them is read too."""

    def __init__(
        self, stream: IO[bytes], first: int, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        """Take the stream of the member, the place of its first row in it, and the shape and type of a row."""
        self._stream, self._first, self._shape, self._dtype = stream, first, shape, dtype

    def read(self, position: int, size: int) -> NDArray[Any]:
        """The row, which has so many bytes."""
        skip_bytes(self._stream, self._first + position * size - self._stream.tell())
        return read_values(self._stream, self._shape, self._dtype)


class StoredRows:
    """Rows at any positions, from the file."""

    def __init__(
        self, file: IO[bytes], first: int, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        """Take the file, the place of the first row in it, and the shape and type of a row."""
        self._file, self._first, self._shape, self._dtype = file, first, shape, dtype

    def read(self, position: int, size: int) -> NDArray[Any]:
        """The row, which has so many bytes."""
        self._file.seek(self._first + position * size)
        return read_values(self._file, self._shape, self._dtype)


def find_content(file: IO[bytes], info: zipfile.ZipInfo) -> int | None:
    """The place of the content of a member in the file; None if it is compressed or encrypted."""
    if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & _ENCRYPTED:
        return None
    if info.compress_size != info.file_size:
        return None
    file.seek(info.header_offset)
    header = file.read(_LOCAL_HEADER)
    if len(header) < _LOCAL_HEADER:
        return None
    name, extra = struct.unpack_from("<2H", header, _NAME_AND_EXTRA)
    return info.header_offset + _LOCAL_HEADER + int(name) + int(extra)


class CheckedMembers:
    """The members of a file whose checksums were right."""

    def __init__(self, path: Path) -> None:
        """Check nothing yet."""
        self._path = path
        self._checked: set[tuple[str, int, int]] = set()

    def check(self, archive: zipfile.ZipFile, name: str) -> None:
        """Check a member, once for as long as the file does not change.

        Raises:
            zipfile.BadZipFile: It is damaged.
        """
        status = self._path.stat()
        key = name, status.st_mtime_ns, status.st_size
        if key in self._checked:
            return
        with archive.open(name) as stream:
            while stream.read(_BLOCK):
                pass
        self._checked.add(key)


def skip_bytes(stream: IO[bytes], count: int) -> None:
    """Read so many bytes of a stream. Its own ``seek`` would read 16 MB into memory at once.

    Raises:
        EOFError: It has fewer.
    """
    while count:
        skipped = len(stream.read(min(count, _BLOCK)))
        if not skipped:
            raise EOFError("the file ends early")
        count -= skipped


def read_values(stream: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The next values of a stream.

    Raises:
        EOFError: It has fewer.
    """
    buffer = bytearray(math.prod(shape) * dtype.itemsize)
    view = memoryview(buffer)
    while view:
        count = stream.readinto(view)  # type: ignore[attr-defined]
        if not count:
            raise EOFError("the file ends early")
        view = view[count:]
    if not buffer:
        return np.empty(shape, dtype)
    return np.frombuffer(buffer, dtype).reshape(shape)
