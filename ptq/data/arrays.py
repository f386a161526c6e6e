"""How are the arrays of .npz and .npy files read a row at a time, trusting nothing in them?

An .npz is a zip of .npy members. Each header is parsed first; pickles are refused, and so is a
header whose shape × type is not exactly what the member holds. Rows are then read through the zip
stream in ascending order, skipping what is not wanted; no member is ever in memory whole.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, Protocol

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ptq.core.errors import DataError
from ptq.data.input_spec import MAX_SAMPLE_BYTES


@dataclass(frozen=True)
class ArrayHeader:
    """What an .npy header declares, and where the values begin."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    offset: int

    @property
    def nbytes(self) -> int:
        """Bytes of all values."""
        return math.prod(self.shape) * self.dtype.itemsize


class Table(Protocol):
    """Arrays by name, read by rows of their leading axis."""

    @property
    def headers(self) -> Mapping[str, ArrayHeader]:
        """Shape and type of each array."""
        ...

    def read_all(self, key: str) -> NDArray[Any]:
        """All of one (small) array."""
        ...

    def read_samples(
        self, keys: Sequence[str], positions: Iterable[int]
    ) -> Iterator[tuple[int, dict[str, NDArray[Any]]]]:
        """The rows at ascending positions of several arrays of one length."""
        ...


def read_header(stream: IO[bytes], size: int, where: str) -> ArrayHeader:
    """Parse an .npy header of a file or member of ``size`` bytes; leaves the stream at the values.

    Raises:
        DataError: Not .npy, a pickle, or a size that differs from what the header declares.
    """
    try:
        version = npy.read_magic(stream)
        parse = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = parse(stream)
    except zipfile.BadZipFile:
        raise
    # A hostile header reaches the tokenizer and numpy's dtype parser; what they raise is not
    # documented.
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{where}: not an .npy array: {reason}") from error
    header = ArrayHeader(shape, dtype, fortran, stream.tell())
    if dtype.hasobject:
        raise DataError(
            f"{where}: holds pickled Python objects, which are refused; save plain arrays"
        )
    if min(shape, default=0) < 0 or header.nbytes != size - header.offset:
        raise DataError(
            f"{where}: damaged: the header declares shape {list(shape)} of {dtype} "
            f"({header.nbytes} bytes), the file holds {size - header.offset}"
        )
    return header


@contextmanager
def open_npz(path: Path) -> Iterator[tuple[zipfile.ZipFile, dict[str, ArrayHeader]]]:
    """An .npz and the headers of its arrays; damage found later, inside, is a DataError too."""
    try:
        if not path.is_file():
            raise DataError(f"{path}: not a regular file; remove it")
        with zipfile.ZipFile(path) as archive:
            headers = {}
            for info in archive.infolist():
                key = info.filename.removesuffix(".npy")
                if key == info.filename:
                    raise DataError(f"{path}: member {key!r} is not an .npy array; remove it")
                with archive.open(info) as stream:
                    headers[key] = read_header(stream, info.file_size, f"{path} array {key!r}")
            yield archive, headers
    except (
        OSError,
        EOFError,
        ValueError,
        MemoryError,
        RuntimeError,  # an encrypted member; its NotImplementedError: an unknown compression
        zlib.error,
        zipfile.BadZipFile,
    ) as error:
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise DataError(
            f"{path}: cannot read the .npz: {reason or type(error).__name__}"
        ) from error


def read_array(archive: zipfile.ZipFile, key: str, header: ArrayHeader, where: str) -> NDArray[Any]:
    """All values of one member, whose header was read before."""
    if header.nbytes > MAX_SAMPLE_BYTES:
        raise DataError(f"{where}: array {key!r} of shape {list(header.shape)} is too large")
    with archive.open(f"{key}.npy") as stream:
        _skip(stream, header.offset)
        flat = _read(stream, (math.prod(header.shape),), header.dtype)
    return flat.reshape(header.shape, order="F" if header.fortran else "C")


def _skip(stream: IO[bytes], count: int) -> None:
    # ZipExtFile.seek takes steps of 16 MB, all of which it holds.
    while count:
        taken = len(stream.read(min(count, 2**20)))
        if not taken:
            raise EOFError("the file ends early")
        count -= taken


def _read(stream: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
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


class NpzTable:
    """The arrays of one .npz, streamed."""

    def __init__(self, path: Path) -> None:
        """Reads headers only; raises DataError where they are damaged."""
        self.path = path
        with open_npz(path) as (_, self.headers):
            pass

    def read_all(self, key: str) -> NDArray[Any]:
        """All of one array."""
        with open_npz(self.path) as (archive, headers):
            return read_array(archive, key, headers[key], str(self.path))

    def read_samples(
        self, keys: Sequence[str], positions: Iterable[int]
    ) -> Iterator[tuple[int, dict[str, NDArray[Any]]]]:
        """The rows at ascending positions, in one pass through each member."""
        with open_npz(self.path) as (archive, headers), ExitStack() as stack:
            streams = {k: stack.enter_context(archive.open(f"{k}.npy")) for k in keys}
            for key in keys:
                if headers[key].fortran and len(headers[key].shape) > 1:
                    raise DataError(
                        f"{self.path}: array {key!r} is in Fortran order and cannot be streamed; "
                        "save np.ascontiguousarray of it"
                    )
            for position in positions:
                row = {}
                for key, stream in streams.items():
                    header = headers[key]
                    size = header.nbytes // header.shape[0]
                    _skip(stream, header.offset + position * size - stream.tell())
                    row[key] = _read(stream, header.shape[1:], header.dtype)
                yield position, row


class NpyTable:
    """The one array of an .npy file, memory-mapped."""

    def __init__(self, path: Path, key: str) -> None:
        """Reads the header only; raises DataError where it is damaged."""
        self.path = path
        self.key = key
        try:
            with path.open("rb") as stream:
                header = read_header(stream, path.stat().st_size, str(path))
        except OSError as error:
            raise DataError(f"{path}: cannot read the file: {error.strerror}") from error
        self.headers = {key: header}

    def read_all(self, key: str) -> NDArray[Any]:
        """The array, mapped."""
        header = self.headers[key]
        order: Literal["C", "F"] = "F" if header.fortran else "C"
        try:
            return np.memmap(self.path, header.dtype, "r", header.offset, header.shape, order)
        except OSError as error:
            raise DataError(f"{self.path}: cannot read the file: {error.strerror}") from error

    def read_samples(
        self, keys: Sequence[str], positions: Iterable[int]
    ) -> Iterator[tuple[int, dict[str, NDArray[Any]]]]:
        """The rows at ascending positions."""
        return MemoryTable({self.key: self.read_all(self.key)}).read_samples(keys, positions)


class MemoryTable:
    """Arrays that are in memory, or mapped."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Takes the arrays as they are, without copying them."""
        self._arrays = arrays
        self.headers = {k: ArrayHeader(a.shape, a.dtype, False, 0) for k, a in arrays.items()}

    def read_all(self, key: str) -> NDArray[Any]:
        """One of the arrays."""
        return self._arrays[key]

    def read_samples(
        self, keys: Sequence[str], positions: Iterable[int]
    ) -> Iterator[tuple[int, dict[str, NDArray[Any]]]]:
        """Copies of the rows at ascending positions."""
        for position in positions:
            yield position, {key: np.array(self._arrays[key][position]) for key in keys}
