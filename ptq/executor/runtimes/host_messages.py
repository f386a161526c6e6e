"""Messages between this process and one that hosts a runtime: a line of JSON, then arrays."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

Header = dict[str, Any]


def write_message(stream: IO[bytes], header: Header, arrays: Sequence[NDArray[Any]] = ()) -> None:
    """Write a message.

    Raises:
        OSError: The other process has ended.
    """
    body = io.BytesIO()
    np.savez(body, *arrays)
    content = body.getvalue()
    stream.write(json.dumps({**header, "bytes": len(content)}).encode() + b"\n")
    stream.write(content)
    stream.flush()


def read_message(stream: IO[bytes]) -> tuple[Header, list[NDArray[Any]]]:
    """Wait for a message.

    Raises:
        EOFError: The other process has ended.
    """
    line = stream.readline()
    header = json.loads(line) if line.endswith(b"\n") else {"bytes": -1}
    content = stream.read(header["bytes"]) if header["bytes"] >= 0 else b""
    if len(content) != header["bytes"]:
        raise EOFError
    with np.load(io.BytesIO(content)) as stored:
        return header, [stored[f"arr_{index}"] for index in range(len(stored.files))]
