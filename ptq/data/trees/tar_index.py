"""Where the members of a tar file are, and the contents of its small members; on this machine or in a store."""

from __future__ import annotations

import errno
import posixpath
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any

from ptq.core import remote
from ptq.core.errors import DataError

MAX_LABEL_BYTES = 2**16
"""Longest member that is read while the members are listed."""
_BLOCK = 512
_NO_TAR = "not an uncompressed tar file, or truncated"


@dataclass(frozen=True)
class TarMember:
    """A regular file in a tar file.

    Attributes:
        place: Path or URL of the tar file.
        name: Name in the tar file.
        offset: First byte of its content.
        size: Number of bytes.
        pieces: Offset and length in the content of each piece that is stored, if it is a sparse file; zeros are
            between them.
    """

    place: str
    name: str
    offset: int
    size: int
    pieces: tuple[tuple[int, int], ...] | None = None

    def read(self) -> bytes:
        """Its content.

        Raises:
            DataError: It cannot be read, or the tar file is truncated.
        """
        try:
            if remote.as_url(self.place) is not None:
                size = self.stored_size
                return self.expand(remote.read(self.place, size, self.offset) if size else b"")
            with open(self.place, "rb") as stream:
                stream.seek(self.offset)
                content = stream.read(self.stored_size)
        except OSError as error:
            where = f"{remote.redact(self.place)} member {self.name}"
            raise DataError(f"{where}: cannot be read: {error.strerror}") from error
        if len(content) != self.stored_size:
            raise DataError(
                f"{self.place} member {self.name}: truncated: {len(content)} of {self.stored_size} bytes"
            )
        return self.expand(content)

    @property
    def stored_size(self) -> int:
        """Number of bytes in the tar file."""
        return self.size if self.pieces is None else sum(length for _, length in self.pieces)

    def expand(self, stored: bytes) -> bytes:
        """The content from the bytes in the tar file."""
        if self.pieces is None:
            return stored
        content, used = bytearray(self.size), 0
        for offset, length in self.pieces:
            content[offset : offset + length] = stored[used : used + length]
            used += length
        return bytes(content)


def index_tar(place: str, small: tuple[str, ...]) -> tuple[list[TarMember], Mapping[str, bytes]]:
    """The files of a tar file, links to them too, and the contents of those whose names end in one of ``small``.

    Raises:
        DataError: The file cannot be read, is truncated, or is no uncompressed tar file.
    """
    is_local = remote.as_url(place) is None

    def index() -> tuple[list[TarMember], Mapping[str, bytes]]:
        try:
            with open(place, "rb") if is_local else remote.open_stream(place) as stream:
                return _index(stream, place, small)
        except tarfile.TarError as error:  # a transfer from a store may have been cut
            reason = " ".join(str(error).split())
            raise OSError(errno.EIO, f"{_NO_TAR} ({reason})") from error

    try:
        return index() if is_local else remote.run_with_retries(place, index)
    except OSError as error:
        reason = error.strerror or " ".join(str(error).split())
        reason = reason if reason.startswith(_NO_TAR) else f"cannot be read: {reason}"
        raise DataError(f"{remote.redact(place)}: {reason}") from error


def _index(
    stream: IO[bytes], place: str, small: tuple[str, ...]
) -> tuple[list[TarMember], Mapping[str, bytes]]:
    members, contents = list[TarMember](), dict[str, bytes]()
    links: list[tuple[str, str]] = []
    with tarfile.open(fileobj=stream, mode="r:") as archive:
        for member in archive:
            archive.members = []  # type: ignore[attr-defined] # else it keeps a record of each
            name = member.name.removeprefix("./")
            if member.islnk():
                links.append((name, member.linkname.removeprefix("./")))
            if member.issym():
                folder = posixpath.dirname(name)
                links.append((name, posixpath.normpath(posixpath.join(folder, member.linkname))))
            if not member.isreg():
                continue
            offset, size = member.offset_data, member.size
            found = TarMember(place, name, offset, size, _list_pieces(member))
            members.append(found)
            if name.lower().endswith(small) and size <= MAX_LABEL_BYTES:
                stream.seek(offset)
                contents[name] = found.expand(stream.read(found.stored_size))
        stream.seek(archive.offset)
        if stream.read(_BLOCK) != bytes(_BLOCK):
            raise tarfile.ReadError("no end of archive")
    _add_links(members, contents, links)
    return members, contents


def _list_pieces(member: tarfile.TarInfo) -> tuple[tuple[int, int], ...] | None:
    """The pieces of a sparse file that are stored; None for any other file.

    Raises:
        ReadError: They overlap, or are no part of the file.
    """
    if not member.issparse():
        return None
    listed: Any = member.sparse  # stubs call it bytes
    # empty entries fill up a header
    pieces = tuple((offset, length) for offset, length in listed if length)
    end = 0
    for offset, length in pieces:
        if not end <= offset <= offset + length <= member.size:
            raise tarfile.ReadError(f"damaged map of the sparse member {member.name}")
        end = offset + length
    return pieces


def _add_links(
    members: list[TarMember], contents: dict[str, bytes], links: Sequence[tuple[str, str]]
) -> None:
    """Add links as copies of the files that they name; what they name may be a link itself, or not be there."""
    known, targets = {member.name: member for member in members}, dict(links)
    for name, target in links:
        seen = {name}
        while target in targets and target not in seen:
            seen.add(target)
            target = targets[target]
        if target in known and name not in known:
            members.append(replace(known[target], name=name))
            if target in contents:
                contents[name] = contents[target]
