"""Atomic writing of files and objects: each is written completely or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ptq.core import remote
from ptq.core.errors import DataError, PtqError, UnwrittenError, UsageError

_TELL_BUCKETS = ("s3://", "az://", "abfs://", "abfss://")
"""URLs of stores that tell whether a bucket exists."""


def check_writable(path: Path, room: int = 0) -> None:
    """Check before long work that a file can be written.

    Args:
        path: The file.
        room: Bytes that the file will need, if known.

    Raises:
        UsageError: The folder does not exist or is not writable; or the path is a folder or a device.
        PtqError: The folder has too little space.
    """
    if (url := remote.as_url(path)) is not None:
        remote.open_file_system(url)  # packages are known now; rights, when it is written
        return
    folder = path.parent
    try:
        # Fails if the current folder was removed.
        path.absolute()
        if path.exists() and not path.is_file():
            raise UsageError(f"output {path} is a folder or a device; choose a file name")
        if path.is_symlink():
            path = path.resolve(strict=False)
            if path.is_symlink():  # up to Python 3.12, `resolve` raises RuntimeError
                raise RuntimeError("its links form a cycle")
            folder = path.parent
        if not folder.is_dir():
            raise UsageError(f"output folder {folder} does not exist; create it first")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise UsageError(f"output folder {folder} is not writable; choose another folder")
        free = shutil.disk_usage(folder).free
    # OSError: the name is too long. ValueError: it has a null byte. RuntimeError: its links form a cycle.
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"output {path} cannot be written: {reason}; choose another place"
        ) from None
    if free < room:
        raise PtqError(
            f"output folder {folder} has {free / 1e6:.1f} MB free, {room / 1e6:.1f} MB may be needed; "
            "choose another folder"
        )


def read(path: Path, most: int = 2**28) -> bytes:
    """Return the content of a file, or of a pipe or device that ends within ``most`` bytes.

    Raises:
        OSError: It cannot be read, or a pipe is longer than that.
    """
    if (url := remote.as_url(path)) is not None:
        return remote.read(url)
    with open(path, "rb") as stream:
        if path.is_file():
            return stream.read()
        content = stream.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"more than {most / 1e6:.0f} MB, and not a regular file")
    return content


@contextmanager
def explain_unreadable(path: Path) -> Iterator[None]:
    """Let the error of a file that cannot be read, or is not text in UTF-8, say so.

    Raises:
        DataError: The code inside raised OSError or UnicodeDecodeError.
    """
    try:
        yield
    except UnicodeDecodeError:
        raise DataError(f"{path}: not a text in UTF-8; convert it, or remove it") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); give a text file") from error


def require_regular(path: Path) -> None:
    """Raise DataError if a place is a pipe, a device, a folder or a broken link: a pipe is waited for without end."""
    if os.path.isfile(path) or not os.path.lexists(path):
        return
    what = "is not a regular file" if os.path.exists(path) else "is a link to what does not exist"
    raise DataError(f"{path}: {what}; mend it, or remove it")


def write(path: Path, content: bytes | Iterable[bytes | memoryview]) -> None:
    """Write a file atomically: to a temporary file in the same folder, which then replaces the file.

    A symbolic link stays a link; its target is written. A file that is replaced keeps its rights, but not setuid and
    setgid, because its content is another. A device or a pipe is written directly. An object of a URL appears whole
    or not at all.

    Args:
        path: The file.
        content: Its bytes, whole or in pieces.

    Raises:
        PtqError: The file cannot be written; its former content is unchanged.
        UnwrittenError: The store of a URL refuses it.
    """
    pieces = [content] if isinstance(content, bytes) else content
    if (url := remote.as_url(path)) is not None:
        whole = b"".join(pieces)
        try:
            remote.write(url, whole)
        except OSError as error:
            refusal = remote.redact(error.strerror or error)
            raise UnwrittenError(remote.redact(url), refusal, whole) from None
        return
    temporary: Path | None = None
    try:
        path = path.resolve()
        if path.exists() and not path.is_file() and not path.is_dir():
            with open(path, "wb") as stream:
                stream.writelines(pieces)
            return
        # The name is set before the file exists, so that a signal at any time lets `finally` remove the file.
        temporary = path.parent / f".ptq-{secrets.token_hex(8)}.tmp"
        with open(temporary, "xb") as stream:
            with suppress(OSError):  # no file is replaced, or the file system has no modes
                temporary.chmod(path.stat().st_mode & 0o777)
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
            with suppress(OSError):  # where there is no folder, there is no file
                temporary.unlink()


def has_file(path: Path) -> bool:
    """Whether there is a file, or an object of this URL.

    Raises:
        PtqError: That cannot be found out.
    """
    if (url := remote.as_url(path)) is None:
        return os.path.exists(path)
    try:
        return remote.has_object(url)
    except OSError as error:
        raise PtqError(f"{remote.redact(url)}: cannot be found out: {error.strerror}") from None


def check_bucket(path: Path) -> None:
    """Check before long work that the bucket or container of an output exists, where the store tells so.

    Stores that answer alike for an empty bucket and for none are not asked. Rights are known when it is written.

    Raises:
        UsageError: The store says that it does not exist.
    """
    url = remote.as_url(path)
    if url is None or not url.startswith(_TELL_BUCKETS):
        return
    system, place = remote.open_file_system(url)
    try:
        bucket = system.split_path(place)[0]  # an access point of Amazon has a slash in its name
        system.info(bucket, refresh=True)
    except FileNotFoundError:
        raise UsageError(
            f"output {remote.redact(url)}: there is no {bucket!r} in the store; create it first, or choose another "
            "place"
        ) from None
    except Exception:  # libraries raise errors of their own; what is wrong shows when it is written
        return


def is_same_file(one: Path, other: Path) -> bool:
    """Return whether two paths name one file, also through links, or by a signed URL or an encoded name."""
    urls = [url for url in map(remote.as_url, (one, other)) if url is not None]
    if urls:
        return len(urls) > 1 and remote.get_path(urls[0]) == remote.get_path(urls[1])
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return os.path.realpath(one) == os.path.realpath(other)
