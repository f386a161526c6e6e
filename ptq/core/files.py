"""Writes a file whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path

from ptq.core.errors import PtqError


def check_writable(path: Path, room: int = 0) -> None:
    """Make sure, before long work, that a file can be written there.

    Args:
        path: The file.
        room: How many bytes it will take, as far as that is known.

    Raises:
        PtqError: The folder does not exist, may not be written or has too little room, or the path is
            a folder or a device.
    """
    folder = path.parent
    try:
        path.absolute()  # fails in a current folder that has been removed
        if path.exists() and not path.is_file():
            raise PtqError(f"output {path} is a folder or a device; give the name of a file")
        if path.is_symlink():
            path = path.resolve(strict=False)
            folder = path.parent
        if not folder.is_dir():
            raise PtqError(f"output folder {folder} does not exist; make it first")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PtqError(f"output folder {folder} may not be written; choose another place")
        free = shutil.disk_usage(folder).free
    except (
        OSError,
        ValueError,
        RuntimeError,
    ) as error:  # a name too long, a null byte, a loop of links
        reason = getattr(error, "strerror", None) or error
        raise PtqError(f"output {path} cannot be written: {reason}; choose another place") from None
    if free < room:
        raise PtqError(
            f"output folder {folder} has {free / 1e6:.1f} MB of space left and {room / 1e6:.1f} MB may "
            "be needed; choose another place"
        )


def read(path: Path, most: int = 2**28) -> bytes:
    """The content of a file, or of a pipe or device that gives so many bytes at most.

    Raises:
        OSError: It cannot be read, or a pipe does not end.
    """
    with open(path, "rb") as stream:
        if path.is_file():
            return stream.read()
        content = stream.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"more than {most / 1e6:.0f} MB, and no regular file")
    return content


def write(path: Path, content: bytes | Iterable[bytes | memoryview]) -> None:
    """Write a file under a temporary name beside its place, and move it there complete; in pieces or at once.

    A symbolic link stays one, and its target is written. A device or pipe is written to as it is.

    Raises:
        PtqError: It cannot be written; what stood there before is untouched.
    """
    pieces = [content] if isinstance(content, bytes) else content
    temporary: Path | None = None
    try:
        path = path.resolve()
        if path.exists() and not path.is_file() and not path.is_dir():
            with open(path, "wb") as stream:
                stream.writelines(pieces)
            return
        # a name before there is a file: whenever a signal comes, it can be taken away
        temporary = path.parent / f".ptq-{secrets.token_hex(8)}.tmp"
        with open(temporary, "xb") as stream:
            stream.writelines(pieces)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
        temporary = None
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise PtqError(f"{path} cannot be written: {reason}; choose another place") from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def is_same_file(one: Path, other: Path) -> bool:
    """Whether two names are of one file, also through symbolic and hard links."""
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return os.path.realpath(one) == os.path.realpath(other)
