"""Writes a file whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ptq.errors import PtqError


def check_writable(path: Path) -> None:
    """Make sure, before long work, that a file can be written there.

    Raises:
        PtqError: The folder does not exist or may not be written, or the path is a folder or a device.
    """
    folder = path.parent
    if path.exists() and not path.is_file():
        raise PtqError(f"output {path} is a folder or a device; give the name of a file")
    if not folder.is_dir():
        raise PtqError(f"output folder {folder} does not exist; make it first")
    if not os.access(folder, os.W_OK):
        raise PtqError(f"output folder {folder} may not be written; choose another place")


def write(path: Path, content: bytes) -> None:
    """Write a file under a temporary name beside its place, and move it there complete.

    A symbolic link stays one, and its target is written. A device or pipe is written to as it is.

    Raises:
        PtqError: It cannot be written; what stood there before is untouched.
    """
    temporary = ""
    try:
        path = path.resolve()
        if path.exists() and not path.is_file() and not path.is_dir():
            path.write_bytes(content)
            return
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)  # mkstemp makes it readable by its owner alone
        os.replace(temporary, path)
        temporary = ""
    except OSError as error:
        raise PtqError(
            f"{path} cannot be written: {error.strerror}; choose another place"
        ) from None
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
