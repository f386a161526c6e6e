"""Named arrays: whether they are equal, and an uncompressed .npz of them; equal arrays give equal bytes."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.observers.npy_header import parse_npy_header


def have_equal_arrays(mine: Mapping[str, NDArray[Any]], theirs: Mapping[str, NDArray[Any]]) -> bool:
    """Whether both have the same names, each with an equal array."""
    known = mine.keys() == theirs.keys()
    return known and all(np.array_equal(mine[name], theirs[name]) for name in mine)


def encode_arrays(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The content of a file that ``numpy.load`` reads. Entries are sorted and carry no time."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for key in sorted(arrays):
            entry = zipfile.ZipInfo(f"{key}.npy", (1980, 1, 1, 0, 0, 0))
            entry.create_system = 3  # the default depends on the operating system
            content = io.BytesIO()
            little = arrays[key].astype(arrays[key].dtype.newbyteorder("<"))
            np.lib.format.write_array(content, little, version=(1, 0), allow_pickle=False)
            archive.writestr(entry, content.getvalue())
    return buffer.getvalue()


def decode_arrays(content: bytes) -> dict[str, NDArray[Any]]:
    """The inverse of `encode_arrays`.

    Raises:
        ValueError: The content is another one; so do zipfile.BadZipFile, RuntimeError, KeyError and EOFError.
    """
    arrays: dict[str, NDArray[Any]] = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for entry in archive.infolist():
            if entry.compress_type != zipfile.ZIP_STORED:
                raise ValueError("compressed")  # so that no array is larger than the file
            stream = io.BytesIO(archive.read(entry))
            if np.lib.format.read_magic(stream) != (1, 0):
                raise ValueError("version")
            stream.seek(0)
            shape, _, dtype = parse_npy_header(stream)
            array = np.frombuffer(stream.read(), dtype).reshape(shape)
            arrays[entry.filename.removesuffix(".npy")] = array
    return arrays
