"""The header of an .npy file or member."""

from __future__ import annotations

from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

_RETRIES = 4


def parse_npy_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """The shape, whether the order is Fortran's, and the element type.

    numpy reads the header with Python's parser. In Python 3.11 that of one thread fails if another thread parses
    meanwhile (SystemError, "AST constructor recursion depth mismatch"), so it reads again.

    Args:
        stream: A seekable stream at the start of the header; afterwards it stands at the first value.

    Raises:
        Exception: It is no such header. numpy documents ValueError; its parsers raise others too.
    """
    start = stream.tell()
    for _ in range(_RETRIES):
        try:
            return _parse(stream)
        except SystemError:
            stream.seek(start)
    return _parse(stream)


def _parse(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = npy.read_magic(stream)
    parse = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    return parse(stream)
