"""A few of the samples that a calibration counted, kept in its statistics for what ranges alone cannot decide.

Kept are those of the lowest content digests. So the choice does not depend on the order of the samples, and that of
two sets follows from those of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

_DIGEST_BYTES = 32
Feed = Mapping[str, NDArray[Any]]
Key = tuple[bytes, str]
"""The digest of a sample's content, and its identity: its relative path, or its number."""


@dataclass(frozen=True, eq=False)
class KeptSamples:
    """Samples by content and identity.

    Attributes:
        limit: The most samples that are kept.
        feeds: The arrays of each sample by input name, in ascending order of keys.
    """

    limit: int
    feeds: Mapping[Key, Feed] = field(default_factory=dict)

    @property
    def by_identity(self) -> dict[str, Feed]:
        """The arrays of each sample; numbers first, then paths, each in ascending order."""
        found = {identity: feed for (_, identity), feed in self.feeds.items()}
        return {identity: found[identity] for identity in sorted(found, key=_listed_order)}

    def merge(self, other: KeptSamples) -> KeptSamples:
        """The samples of both, as many as both may keep."""
        limit = min(self.limit, other.limit)
        both = {**self.feeds, **other.feeds}
        return KeptSamples(limit, {key: both[key] for key in sorted(both)[:limit]})

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of a statistics file, by key."""
        inputs = sorted({name for feed in self.feeds.values() for name in feed})
        digests = b"".join(digest for digest, _ in self.feeds)
        arrays: dict[str, NDArray[Any]] = {
            "limit": np.array(self.limit, np.int64),
            "inputs": _to_array(inputs),
            "identities": _to_array([identity for _, identity in self.feeds]),
            "digests": np.frombuffer(digests, np.uint8).reshape(-1, _DIGEST_BYTES),
        }
        for index, feed in enumerate(self.feeds.values()):
            for name, array in feed.items():
                arrays[f"{index}.{inputs.index(name)}"] = array
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> KeptSamples:
        """The inverse of `to_arrays`.

        Raises:
            KeyError: An array is missing; or ValueError, where one is another one.
        """
        inputs, identities = _to_texts(arrays["inputs"]), _to_texts(arrays["identities"])
        digests, limit = arrays["digests"], int(arrays["limit"])
        if digests.dtype != np.uint8 or digests.shape[1:] != (_DIGEST_BYTES,):
            raise ValueError("kept samples")
        keys = [(row.tobytes(), name) for row, name in zip(digests, identities, strict=True)]
        if keys != sorted(keys) or len(keys) > limit:
            raise ValueError("kept samples")
        return cls(
            limit,
            {
                key: {name: arrays[f"{index}.{place}"] for place, name in enumerate(inputs)}
                for index, key in enumerate(keys)
            },
        )


class SampleKeeper:
    """Keeps samples while they pass."""

    def __init__(self, limit: int) -> None:
        """Take the most samples to keep."""
        self._limit = limit
        self._feeds: dict[Key, Feed] = {}

    def add(self, digest: bytes, name: str, feed: Feed) -> None:
        """Keep a copy of a sample if its digest is among the lowest; a sample that comes again counts once.

        Args:
            digest: The digest of its content.
            name: What messages call it.
            feed: Its arrays by input name.
        """
        key = digest, name
        if key in self._feeds or (len(self._feeds) == self._limit and key > max(self._feeds)):
            return
        self._feeds[key] = {of: np.array(array) for of, array in feed.items()}
        if len(self._feeds) > self._limit:
            del self._feeds[max(self._feeds)]

    def keep(self, identities: Mapping[str, str]) -> KeptSamples:
        """What was kept so far; ``identities`` are those of the samples by name."""
        found = {(digest, identities[name]): feed for (digest, name), feed in self._feeds.items()}
        return KeptSamples(self._limit, {key: found[key] for key in sorted(found)})


def _listed_order(identity: str) -> tuple[bool, int, str]:
    is_number = identity.isdecimal()
    return not is_number, int(identity) if is_number else 0, identity


def _to_array(texts: list[str]) -> NDArray[np.uint8]:
    return np.frombuffer(
        "".join(f"{text}\0" for text in texts).encode("utf-8", "surrogateescape"), np.uint8
    )


def _to_texts(array: NDArray[Any]) -> list[str]:
    return array.tobytes().decode("utf-8", "surrogateescape").split("\0")[:-1]
