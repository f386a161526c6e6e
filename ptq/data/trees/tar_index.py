"""Where the members of a tar file are, and the contents of its small members; on this machine or in a store."""

from __future__ import annotations

import errno
import posixpath
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO

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
            where = f"{remote.redact(self.place)} member {self.name}"
            raise DataError(f"{where}: cannot be read: {error.strerror}") from error
        if len(content) != self.size:
            raise DataError(
                f"{self.place} member {self.name}: truncated: {len(content)} of {self.size} bytes"
            )
        return content


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
            members.append(TarMember(place, name, member.offset_data, member.size))
            if name.lower().endswith(small) and member.size <= MAX_LABEL_BYTES:
                stream.seek(member.offset_data)
                contents[name] = stream.read(member.size)
        stream.seek(archive.offset)
        if stream.read(_BLOCK) != bytes(_BLOCK):
            raise tarfile.ReadError("no end of archive")
    _add_links(members, contents, links)
    return members, contents


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
