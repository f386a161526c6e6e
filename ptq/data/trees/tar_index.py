"""Where the members of a tar file are, and the contents of its small members; on this machine or in a store."""

from __future__ import annotations

import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO

from ptq.core import remote
from ptq.core.errors import DataError

MAX_LABEL_BYTES = 2**16
"""Longest member that is read while the members are listed."""
_BLOCK = 512


@dataclass(frozen=True)
class TarMember:
    """A regular file in a tar file.

    Attributes:
        place: Path or URL of the tar file.
        name: Name in the tar file.
        offset: First byte of its content.
        size: Number of bytes.
    """

    place: str
    name: str
    offset: int
    size: int

    def read(self) -> bytes:
        """Its content.

        Raises:
            DataError: It cannot be read, or the tar file is truncated.
        """
        try:
            if remote.as_url(self.place) is not None:
                return remote.read(self.place, self.size, self.offset) if self.size else b""
            with open(self.place, "rb") as stream:
                stream.seek(self.offset)
                content = stream.read(self.size)
        except OSError as error:
            where = f"{remote.show(self.place)} member {self.name}"
            raise DataError(f"{where}: cannot be read: {error.strerror}") from error
        if len(content) != self.size:
            raise DataError(
                f"{self.place} member {self.name}: truncated: {len(content)} of {self.size} bytes"
            )
        return content


def index_tar(place: str, small: tuple[str, ...]) -> tuple[list[TarMember], Mapping[str, bytes]]:
    """The regular files of a tar file, and the contents of those whose names end in one of ``small``.

    Raises:
        DataError: The file cannot be read, is truncated, or is no uncompressed tar file.
    """
    title = remote.show(place)
    try:
        if remote.as_url(place) is None:
            with open(place, "rb") as stream:
                return _index(stream, place, small)

        def index() -> tuple[list[TarMember], Mapping[str, bytes]]:
            with remote.open_stream(place) as stream:
                return _index(stream, place, small)

        return remote.run_with_retries(place, index)
    except OSError as error:
        reason = error.strerror or " ".join(str(error).split())
        raise DataError(f"{title}: cannot be read: {reason}") from error
    except tarfile.TarError as error:
        reason = " ".join(str(error).split())
        raise DataError(
            f"{title}: not an uncompressed tar file, or truncated ({reason})"
        ) from error


def _index(
    stream: IO[bytes], place: str, small: tuple[str, ...]
) -> tuple[list[TarMember], Mapping[str, bytes]]:
    members, contents = [], {}
    with tarfile.open(fileobj=stream, mode="r:") as archive:
        for member in archive:
            archive.members = []  # type: ignore[attr-defined] # else it keeps a record of each
            if not member.isreg():
                continue
            name = member.name.removeprefix("./")
            members.append(TarMember(place, name, member.offset_data, member.size))
            if name.lower().endswith(small) and member.size <= MAX_LABEL_BYTES:
                stream.seek(member.offset_data)
                contents[name] = stream.read(member.size)
        stream.seek(archive.offset)
        if stream.read(_BLOCK) != bytes(_BLOCK):
            raise tarfile.ReadError("no end of archive")
    return members, contents
