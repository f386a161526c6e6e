"""Which samples statistics count, by short digests of their content.

A prefix is the first 8 bytes of the SHA-256 of a sample (`ptq.data.sample_digest`), and of an image also those of its
pattern (`ptq.data.image_pattern`). The smallest 4,096 of the set are kept. They do not depend on the order of the
samples, and those of two sets give those of both.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

BYTES = 8
LIMIT = 4096

Prefixes = tuple[bytes, ...]
"""The smallest prefixes of a set of samples, ascending; complete if there are fewer than the limit."""


def keep_prefixes(digests: Iterable[bytes]) -> Prefixes:
    """The prefixes that are kept of digests, or of prefixes."""
    return tuple(sorted({digest[:BYTES] for digest in digests})[:LIMIT])


def merge_prefixes(first: Prefixes | None, second: Prefixes | None) -> Prefixes | None:
    """The prefixes of two sets together; None if one is unknown."""
    return None if first is None or second is None else keep_prefixes([*first, *second])


def encode_prefixes(prefixes: Prefixes) -> NDArray[np.uint8]:
    """An array of shape (prefixes, 8)."""
    return np.frombuffer(b"".join(prefixes), np.uint8).reshape(-1, BYTES)


def decode_prefixes(stored: NDArray[np.uint8]) -> Prefixes:
    """The inverse of `encode_prefixes`; raise ValueError if the array is another one."""
    found = tuple(bytes(row) for row in stored.reshape(-1, BYTES))
    if stored.dtype != np.uint8 or stored.ndim != 2 or found != keep_prefixes(found):
        raise ValueError("prefixes")
    return found
