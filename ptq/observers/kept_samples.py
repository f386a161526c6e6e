"""A few of the samples that a calibration counted, kept in its statistics for what ranges alone cannot decide.

Kept are those of the lowest content digests, as many as the limit permits. So the choice does not depend on the order
of the samples, and that of two sets follows from those of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.observers.keep_limit import KeepLimit

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
        refused: The lowest digest that a limit of bytes left out; those above are left out too. None for none.
        passed_over: How many counted samples are of statistics that keep none.
    """

    limit: KeepLimit
    feeds: Mapping[Key, Feed] = field(default_factory=dict)
    refused: bytes | None = None
    passed_over: int = 0

    @property
    def by_identity(self) -> dict[str, Feed]:
        """The arrays of each sample; numbers first, then paths, each in ascending order."""
        found = {identity: feed for (_, identity), feed in self.feeds.items()}
        return {identity: found[identity] for identity in sorted(found, key=_get_sort_key)}

    def merge(self, other: KeptSamples) -> KeptSamples:
        """The samples of both, as many as both may keep."""
        keeper = SampleKeeper(self.limit.intersect(other.limit))
        for part in (self, other):
            for (digest, identity), feed in part.feeds.items():
                keeper.add(digest, identity, feed)
            keeper.refuse(part.refused)
        return replace(keeper.keep(), passed_over=self.passed_over + other.passed_over)

    def pass_over(self, samples: int) -> KeptSamples:
        """The same samples, beside others of which none is kept."""
        return replace(self, passed_over=self.passed_over + samples)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of a statistics file, by key."""
        inputs = sorted({name for feed in self.feeds.values() for name in feed})
        digests = b"".join(digest for digest, _ in self.feeds)
        arrays: dict[str, NDArray[Any]] = {
            "limit": _write_limit(self.limit),
            "inputs": _to_array(inputs),
            "identities": _to_array([identity for _, identity in self.feeds]),
            "digests": np.frombuffer(digests, np.uint8).reshape(-1, _DIGEST_BYTES),
        }
        if self.refused is not None:
            arrays["refused"] = np.frombuffer(self.refused, np.uint8)
        if self.passed_over:
            arrays["passed_over"] = np.array(self.passed_over, np.int64)
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
        digests, limit = arrays["digests"], _read_limit(arrays["limit"])
        if digests.dtype != np.uint8 or digests.shape[1:] != (_DIGEST_BYTES,):
            raise ValueError("kept samples")
        keys = [(row.tobytes(), name) for row, name in zip(digests, identities, strict=True)]
        feeds = {
            key: {name: arrays[f"{index}.{place}"] for place, name in enumerate(inputs)}
            for index, key in enumerate(keys)
        }
        if keys != sorted(keys) or not limit.permits(
            len(feeds), sum(map(_count_bytes, feeds.values()))
        ):
            raise ValueError("kept samples")
        refused = arrays["refused"].tobytes() if "refused" in arrays else None
        return cls(limit, feeds, refused, int(arrays.get("passed_over", 0)))


class SampleKeeper:
    """Keeps samples while they pass."""

    def __init__(self, limit: KeepLimit) -> None:
        """Take the most samples to keep."""
        self._limit = limit
        self._feeds: dict[Key, Feed] = {}
        self._bytes = 0
        self._refused: bytes | None = None

    def add(self, digest: bytes, name: str, feed: Feed) -> None:
        """Keep a copy of a sample if its digest is among the lowest; a sample that comes again counts once.

        Args:
            digest: The digest of its content.
            name: What messages call it.
            feed: Its arrays by input name.
        """
        key, size = (digest, name), _count_bytes(feed)
        if key in self._feeds or (self._refused is not None and digest >= self._refused):
            return
        full = not self._limit.permits(len(self._feeds) + 1, self._bytes + size)
        if full and self._feeds and key > max(self._feeds):
            self._leave_out(key)
            return
        self._feeds[key] = {of: np.array(array) for of, array in feed.items()}
        self._bytes += size
        while not self._limit.permits(len(self._feeds), self._bytes):
            self._leave_out(max(self._feeds))

    def refuse(self, digest: bytes | None) -> None:
        """Leave out all samples from a digest on; None for none."""
        if digest is None or (self._refused is not None and self._refused <= digest):
            return
        self._refused = digest
        for key in [key for key in self._feeds if key[0] >= digest]:
            self._bytes -= _count_bytes(self._feeds.pop(key))

    def _leave_out(self, key: Key) -> None:
        """Leave a sample out. Where bytes are limited, so is what comes after it, though a small one might fit."""
        if key in self._feeds:
            self._bytes -= _count_bytes(self._feeds.pop(key))
        if self._limit.bytes is not None:
            self.refuse(key[0])

    def keep(self, identities: Mapping[str, str] | None = None) -> KeptSamples:
        """What was kept so far.

        Args:
            identities: The identities of the samples by name; None if the names are identities.
        """
        found = {
            (digest, name if identities is None else identities[name]): feed
            for (digest, name), feed in self._feeds.items()
        }
        ordered = {key: found[key] for key in sorted(found)}
        return KeptSamples(self._limit, ordered, self._refused)


def _count_bytes(feed: Feed) -> int:
    return sum(array.nbytes for array in feed.values())


def _write_limit(limit: KeepLimit) -> NDArray[np.int64]:
    """A number of samples; or this and a number of bytes, -1 for any."""
    samples = -1 if limit.samples is None else limit.samples
    return np.array(samples if limit.bytes is None else [samples, limit.bytes], np.int64)


def _read_limit(array: NDArray[Any]) -> KeepLimit:
    samples, size = (int(array), -1) if array.ndim == 0 else (int(number) for number in array)
    return KeepLimit(None if samples < 0 else samples, None if size < 0 else size)


def _get_sort_key(identity: str) -> tuple[bool, int, str]:
    is_number = identity.isdecimal()
    return not is_number, int(identity) if is_number else 0, identity


def _to_array(texts: list[str]) -> NDArray[np.uint8]:
    return np.frombuffer(
        "".join(f"{text}\0" for text in texts).encode("utf-8", "surrogateescape"), np.uint8
    )


def _to_texts(array: NDArray[Any]) -> list[str]:
    return array.tobytes().decode("utf-8", "surrogateescape").split("\0")[:-1]
