"""Which samples of a listing statistics count: every n-th from the k-th on, for one or several k.

A listing is a sequence of sample names. Shard k of n takes the positions k, k + n, k + 2n and so on. The counts of
several shards add up, and all shards of a listing together have the counts of the whole, in any order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ptq.core.errors import StatsError
from ptq.core.record import Record

MAX_PERIOD = 10**6
"""Shards of a million is more than anybody starts; it bounds the record."""


@dataclass(frozen=True)
class CountedListing:
    """How often the samples of a listing are counted.

    Attributes:
        digest: Digest of the names of the listing, in any order; 64 hexadecimal digits.
        total: Number of samples of the listing.
        counts: How often position p is counted, at index p modulo the length; as short as possible.
        first: Of some rows of a listing, whose names are numbers: the digest of its first row, as 64 hexadecimal
            digits. Empty if all rows are counted, if there are names, if that row is bad, or if an older version
            counted them.
    """

    digest: str
    total: int
    counts: tuple[int, ...]
    first: str = ""

    def may_be_same(self, other: CountedListing) -> bool:
        """Whether both can be of one listing, as far as is known."""
        known = {self.first, other.first} - {""}
        return (self.digest, self.total) == (other.digest, other.total) and len(known) < 2

    def belongs_to(self, other: CountedListing) -> bool:
        """Whether both are added up; a shard of rows may be of another data set than rows that are complete."""
        is_known = self.first == other.first or not (all(self.counts) or all(other.counts))
        return self.may_be_same(other) and is_known

    def add(self, other: CountedListing) -> CountedListing:
        """The counts of both; the listings are the same.

        Raises:
            StatsError: The numbers of shards have no common multiple that a record can hold.
        """
        period = math.lcm(len(self.counts), len(other.counts))
        if period > MAX_PERIOD:
            raise StatsError(
                f"shards of {len(self.counts)} and of {len(other.counts)} are too many together; "
                "divide all samples into the same number of shards"
            )
        sums = [
            self.counts[p % len(self.counts)] + other.counts[p % len(other.counts)]
            for p in range(period)
        ]
        first = "" if all(sums) else self.first or other.first
        return CountedListing(self.digest, self.total, _shorten(sums, self.total), first)

    def list_missing(self) -> list[str]:
        """Shards that are not counted, each as ``1/3``."""
        return [f"{k}/{len(self.counts)}" for k, count in enumerate(self.counts) if not count]

    def list_common(self, other: CountedListing) -> list[str]:
        """Shards that both count, each as ``1/3``."""
        both = self.add(other)
        ours, theirs = self.counts, other.counts
        period = len(both.counts)
        return [
            f"{k}/{period}"
            for k in range(period)
            if ours[k % len(ours)] and theirs[k % len(theirs)]
        ]

    def to_record(self) -> Record:
        """The form in which a file holds it."""
        first = {"first": self.first} if self.first else {}
        return {"digest": self.digest, "total": self.total, "counts": list(self.counts), **first}

    @classmethod
    def from_record(cls, record: Any) -> CountedListing:
        """The inverse of `to_record`; raise ValueError, KeyError or TypeError if it is another one."""
        digest, total, counts = record["digest"], record["total"], record["counts"]
        numbers = [total, *counts]
        first = record.get("first", "")
        if (
            not isinstance(digest, str)
            or not isinstance(first, str)
            or not counts
            or any(type(n) is not int for n in numbers)
        ):
            raise ValueError("listing")
        if min(numbers) < 0 or len(counts) > MAX_PERIOD:
            raise ValueError("listing")
        return cls(digest, total, tuple(counts), first)


def count_shard(digest: str, total: int, shard: tuple[int, int], first: str = "") -> CountedListing:
    """The counts of shard (k, n) of a listing with this digest and number of samples; ``first`` as in the class."""
    index, period = shard
    counts = [int(p == index) for p in range(min(period, max(total, 1)))]
    return CountedListing(digest, total, _shorten(counts, total), "" if all(counts) else first)


def add_listings(
    first: Iterable[CountedListing], second: Iterable[CountedListing]
) -> tuple[CountedListing, ...]:
    """The counts of two sets of listings together, in the order of their digests."""
    found: list[CountedListing] = []
    for each in (*first, *second):
        # rows that are complete by now may belong to others that are
        while (same := next((one for one in found if one.belongs_to(each)), None)) is not None:
            found.remove(same)
            each = same.add(each)
        found.append(each)
    return tuple(sorted(found, key=lambda one: (one.digest, one.total, one.first)))


def _shorten(counts: list[int], total: int) -> tuple[int, ...]:
    """The shortest counts that say the same for all positions of a listing."""
    counts = counts[: max(total, 1)]
    size = len(counts)
    for period in range(1, size + 1):
        if size % period == 0 and counts == counts[:period] * (size // period):
            return tuple(counts[:period])
    return tuple(counts)
