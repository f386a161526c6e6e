"""Reading of .npz and .npy files by rows, without trust in their content.

An .npz is a zip of .npy members. Each header is parsed first. Pickles are refused, and so is a header whose shape and
type do not match the member's size. Rows are then read at their place, or from the zip stream in ascending order if a
member is compressed. No member is ever in memory as a whole.
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
from numpy.typing import NDArray

from ptq.core import files
from ptq.core.errors import DataError
from ptq.data.formats.npz_rows import (
    CheckedMembers,
    StoredRows,
    StreamedRows,
    find_content,
    read_values,
    skip_bytes,
)
from ptq.data.input_spec import MAX_SAMPLE_BYTES
from ptq.observers.npy_header import parse_npy_header


@dataclass(frozen=True)
class ArrayHeader:
    """Header of an .npy file or member.

    Attributes:
        shape: Declared shape.
        dtype: Declared element type.
        fortran: Whether the values are in Fortran order.
        offset: Byte position of the first value.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    offset: int

    @property
    def nbytes(self) -> int:
        """Number of bytes of all values."""
        return math.prod(self.shape) * self.dtype.itemsize


class Table(Protocol):
    """Arrays by name, which are read by rows of their leading axis."""

    @property
    def finds_rows(self) -> bool:
        """Whether a row is found without reading those before it."""
        ...

    @property
    def headers(self) -> Mapping[str, ArrayHeader]:
        """Shape and type of each array."""
        ...

    def read_all(self, key: str) -> NDArray[Any]:
        """One whole array, which should be small."""
        ...

    def read_samples(
        self, keys: Sequence[str], positions: Iterable[int]
    ) -> Iterator[tuple[int, dict[str, NDArray[Any]]]]:
        """Rows at ascending positions of several arrays of the same length."""
        ...


def read_header(stream: IO[bytes], size: int, where: str) -> ArrayHeader:
    """Parse the .npy header of a file or member of ``size`` bytes. The stream then stands at the first value.

    Raises:
        DataError: It is not an .npy file, it is a pickle, or its size differs from the declared size.
    """
    try:
        shape, fortran, dtype = parse_npy_header(stream)
    except zipfile.BadZipFile:
        raise
    # A hostile header reaches the tokenizer and numpy's dtype parser, whose exceptions are undocumented.
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{where}: not an .npy array: {reason}") from error
    header = ArrayHeader(shape, dtype, fortran, stream.tell())
    if dtype.hasobject:
        raise DataError(
            f"{where}: contains pickled Python objects, which ptq does not load; save plain arrays"
        )
    if min(shape, default=0) < 0 or header.nbytes != size - header.offset:
        raise DataError(
            f"{where}: damaged: the header declares shape {list(shape)} of {dtype} "
            f"({header.nbytes} bytes), the file contains {size - header.offset}"
        )
    return header


@contextmanager
def open_npz(path: Path) -> Iterator[tuple[zipfile.ZipFile, dict[str, ArrayHeader]]]:
    """Open an .npz and read the headers of its arrays. Damage found inside the block raises DataError too."""
    try:
        files.require_regular(path)
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
        RuntimeError,  # for an encrypted member; its subclass NotImplementedError for an unknown compression
        zlib.error,
        zipfile.BadZipFile,
    ) as error:
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise DataError(
            f"{path}: cannot read the .npz: {reason or type(error).__name__}"
        ) from error


def read_array(archive: zipfile.ZipFile, key: str, header: ArrayHeader, where: str) -> NDArray[Any]:
    """All values of one member, given its header."""
    if header.nbytes > MAX_SAMPLE_BYTES:
        raise DataError(f"{where}: array {key!r} of shape {list(header.shape)} is too large")
    with archive.open(f"{key}.npy") as stream:
        skip_bytes(stream, header.offset)
        flat = read_values(stream, (math.prod(header.shape),), header.dtype)
    return flat.reshape(header.shape, order="F" if header.fortran else "C")


class NpzTable:
    """The arrays of one .npz, streamed.

    Attributes:
        path: The file.
        headers: Shape and type of each array.
        finds_rows: See `Table`.
    """

    def __init__(self, path: Path) -> None:
        """Read the headers only; raise DataError if one is damaged."""
        self.path = path
        self._checked = CheckedMembers(path)
        with open_npz(path) as (archive, self.headers):
            kinds = {member.compress_type for member in archive.infolist()}
        self.finds_rows = kinds == {zipfile.ZIP_STORED}

    def read_all(self, key: str) -> NDArray[Any]:
        """One whole array."""
        with open_npz(self.path) as (archive, headers):
            self._refuse_change(headers)
            return read_array(archive, key, headers[key], str(self.path))

    def read_samples(
        self, keys: Sequence[str], positions: Iterable[int]
    ) -> Iterator[tuple[int, dict[str, NDArray[Any]]]]:
        """Rows at ascending positions; those between them are read only if a member is compressed."""
        with open_npz(self.path) as (archive, headers), ExitStack() as stack:
            self._refuse_change(headers)
            rows = {k: self._open_rows(archive, k, headers[k], stack) for k in keys}
            for position in positions:
                row = {}
                for key, reader in rows.items():
                    header = headers[key]
                    row[key] = reader.read(position, header.nbytes // header.shape[0])
                    if position == header.shape[0] - 1 and isinstance(reader, StoredRows):
                        self._checked.check(archive, f"{key}.npy")
                yield position, row

    def _refuse_change(self, headers: Mapping[str, ArrayHeader]) -> None:
        """Positions that were counted before could lie outside the arrays of a file that was written again."""
        if headers != self.headers:
            raise DataError(
                f"{self.path}: was written again with other arrays since it was opened; start again"
            )

    def _open_rows(
        self, archive: zipfile.ZipFile, key: str, header: ArrayHeader, stack: ExitStack
    ) -> StoredRows | StreamedRows:
        if header.fortran and len(header.shape) > 1:
            raise DataError(
                f"{self.path}: array {key!r} is in Fortran order and cannot be streamed; "
                "save np.ascontiguousarray of it"
            )
        row = header.shape[1:], header.dtype
        stream = stack.enter_context(archive.open(f"{key}.npy"))
        file = stack.enter_context(self.path.open("rb", buffering=0))
        content = find_content(file, archive.getinfo(f"{key}.npy"))
        if content is None:
            return StreamedRows(stream, header.offset, *row)
        return StoredRows(file, content + header.offset, *row)


class NpyTable:
    """The one array of an .npy file, memory-mapped."""

    finds_rows = True

    def __init__(self, path: Path, key: str) -> None:
        """Read the header only; raise DataError if it is damaged."""
        self.path = path
        self.key = key
        try:
            with path.open("rb") as stream:
                header = read_header(stream, path.stat().st_size, str(path))
        except OSError as error:
            raise DataError(f"{path}: cannot read the file: {error.strerror}") from error
        self.headers = {key: header}

    def read_all(self, key: str) -> NDArray[Any]:
        """The array, memory-mapped."""
        header = self.headers[key]
        order: Literal["C", "F"] = "F" if header.fortran else "C"
        try:
            return np.memmap(self.path, header.dtype, "r", header.offset, header.shape, order)
        except OSError as error:
            raise DataError(f"{self.path}: cannot read the file: {error.strerror}") from error

    def read_samples(
        self, keys: Sequence[str], positions: Iterable[int]
    ) -> Iterator[tuple[int, dict[str, NDArray[Any]]]]:
        """Rows at ascending positions."""
        return MemoryTable({self.key: self.read_all(self.key)}).read_samples(keys, positions)


class MemoryTable:
    """Arrays that are in memory or memory-mapped."""

    finds_rows = True

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Keep the arrays without copying them."""
        self._arrays = arrays
        self.headers = {k: ArrayHeader(a.shape, a.dtype, False, 0) for k, a in arrays.items()}

    def read_all(self, key: str) -> NDArray[Any]:
        """One of the arrays."""
        return self._arrays[key]

    def read_samples(
        self, keys: Sequence[str], positions: Iterable[int]
    ) -> Iterator[tuple[int, dict[str, NDArray[Any]]]]:
        """Copies of rows at ascending positions."""
        for position in positions:
            yield position, {key: np.array(self._arrays[key][position]) for key in keys}
