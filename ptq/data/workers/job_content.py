"""A job as bytes for another process: its arrays stand beside what is pickled, so that no other copy is made."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

_ALIGNMENT = 64
"""Bytes; each array starts at a multiple of it, as numpy's own do."""


def pack_job(job: Any) -> list[memoryview]:
    """A job as the pieces of its bytes; the arrays are the job's own."""
    arrays, rest = list[memoryview](), io.BytesIO()
    ForkingPickler(rest, 5, True, lambda buffer: arrays.append(buffer.raw())).dump(job)
    pieces = [rest.getbuffer(), *arrays]
    sizes = np.array([len(pieces), *(piece.nbytes for piece in pieces)], "<i8")
    packed = list[memoryview]()
    for piece in (memoryview(sizes.tobytes()), *pieces):
        packed += piece, memoryview(bytes(-piece.nbytes % _ALIGNMENT))
    return packed


def unpack_job(content: bytes) -> Any:
    """The job of the bytes that `pack_job` gives. Its arrays are read-only parts of them."""
    view, end = memoryview(content), 8 + 8 * int.from_bytes(content[:8], "little")
    pieces, start = list[memoryview](), _align(end)
    for size in np.frombuffer(view[8:end], "<i8").tolist():
        pieces.append(view[start : start + size])
        start = _align(start + size)
    return ForkingPickler.loads(pieces[0], buffers=pieces[1:])


def digest_pieces(pieces: Sequence[memoryview]) -> bytes:
    """SHA-256 of pieces of bytes."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.digest()


def _align(place: int) -> int:
    return place + -place % _ALIGNMENT
