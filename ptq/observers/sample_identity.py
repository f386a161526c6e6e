"""Identity of the samples that statistics count, and what counted them.

It holds listings and shards, a digest of all contents, and short digests of name and content together. A merge
therefore finds a shard that is counted twice, a shard that is missing, and samples that two data sets share.
Versions and the kind of processor are there because float results may differ between them in their last bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ptq.core.errors import StatsError
from ptq.core.record import Record, decode_record, encode_record
from ptq.core.wording import plural
from ptq.observers.sample_listing import CountedListing, add_listings
from ptq.observers.sample_prefixes import LIMIT, Prefixes, keep_prefixes

_MODULUS = 2**256
SHARED_CONTENTS = 0.05
"""From this share of equal contents on, two data sets count as overlapping. Real data have some equal samples."""
_LISTED_SHARDS = 5
"""Shards that a message names; it counts the others."""


@dataclass(frozen=True)
class SampleIdentity:
    """Which samples were counted, and by what.

    Attributes:
        listings: Counted shards of each listing, in the order of the digests.
        digest: Sum of the content digests of all counted samples; 64 hexadecimal digits.
        members: Short digests of name and content of the samples (`ptq.observers.sample_prefixes`). None of rows,
            which have no names.
        made_by: Versions and kind of processor, each once, in the order of their texts.
    """

    listings: tuple[CountedListing, ...]
    digest: str
    members: Prefixes
    made_by: tuple[Record, ...]

    @property
    def processors(self) -> tuple[str, ...]:
        """The kinds of processor, in words."""
        return tuple(sorted({_describe_processor(made) for made in self.made_by}))

    def list_missing(self) -> list[str]:
        """Shards of the listings that are not counted, each as ``1/3``."""
        return [shard for listing in self.listings for shard in listing.list_missing()]

    def merge(self, other: SampleIdentity) -> SampleIdentity:
        """The identity of both sets of samples."""
        total = (int(self.digest, 16) + int(other.digest, 16)) % _MODULUS
        makers = {encode_record(made): made for made in (*self.made_by, *other.made_by)}
        return SampleIdentity(
            add_listings(self.listings, other.listings),
            f"{total:064x}",
            keep_prefixes([*self.members, *other.members]),
            tuple(makers[text] for text in sorted(makers)),
        )

    def require_other_samples(
        self,
        other: SampleIdentity,
        contents: Prefixes | None,
        others: Prefixes | None,
        share: float = SHARED_CONTENTS,
    ) -> None:
        """Refuse samples that are counted already.

        No sample may have the name and the content of a counted one. Contents alone may occur twice in real data:
        in other shards of the same listing, and elsewhere in a small share of the samples.

        Args:
            other: The identity of the other samples.
            contents: Short digests of the contents of these samples; None if unknown.
            others: Those of the other samples.
            share: The share of the smaller set from which equal contents are refused.

        Raises:
            StatsError: Samples are in both.
        """
        common = [
            mine.list_common(theirs)
            for theirs in other.listings
            for mine in self.listings
            if mine.is_same(theirs)
        ]
        twice = [shard for shards in common for shard in shards]
        shared, what = len({*self.members} & {*other.members}), "name and content"
        if not shared and (twice or not common):
            small, large = sorted(({*(contents or ())}, {*(others or ())}), key=len)
            found = len(small & large)
            least = 1 if twice else 2  # an image and its pattern, or two samples by chance
            shared, what = found if found >= max(least, share * len(small)) else 0, "contents"
        if not shared:
            return
        advice = f"{what} are in both statistics; merge each sample once"
        if twice:
            which = "all samples" if twice == ["0/1"] else format_shards(twice)
        elif what == "contents":  # of an image the pattern is among them too
            which = "samples"
        else:
            bound = "at least " if LIMIT in (len(self.members), len(other.members)) else ""
            which = f"{bound}{plural(shared, 'sample')}"
        raise StatsError(f"{which} would be counted twice: {advice}")

    def require_same_processor(self, other: SampleIdentity) -> None:
        """Refuse statistics of another kind of processor.

        Raises:
            StatsError: The kinds differ.
        """
        kinds = sorted({*self.processors, *other.processors})
        if len(kinds) > 1:
            raise StatsError(
                f"the statistics are of different kinds of processor: {'; '.join(kinds)}. Float results may differ "
                "in their last bits; calibrate on one kind, or set `allow_mixed_processors`"
            )

    def to_text(self) -> str:
        """Canonical JSON of all but ``members``."""
        return encode_record(
            {
                "digest": self.digest,
                "listings": [listing.to_record() for listing in self.listings],
                "made_by": list(self.made_by),
            }
        )

    @classmethod
    def from_text(cls, text: str, members: Prefixes) -> SampleIdentity:
        """The inverse of `to_text`; raise ValueError, KeyError or TypeError if the text is another one."""
        record = decode_record(text)
        listings = tuple(CountedListing.from_record(each) for each in record["listings"])
        digest = f"{int(record['digest'], 16) % _MODULUS:064x}"
        makers: Sequence[Any] = record["made_by"]
        if not all(isinstance(made, dict) for made in makers):
            raise ValueError("made_by")
        return cls(listings, digest, members, tuple(makers))


def format_shards(shards: Sequence[str]) -> str:
    """``shard 1/3``, or ``shards 0/3, 2/3``; many are counted."""
    shown = ", ".join(shards[:_LISTED_SHARDS])
    rest = len(shards) - _LISTED_SHARDS
    more = f" and {rest} more" if rest > 0 else ""
    return f"{'shard' if len(shards) == 1 else 'shards'} {shown}{more}"


def _describe_processor(made: Mapping[str, Any]) -> str:
    features = made.get("features")
    words = " ".join(map(str, features)) if isinstance(features, list) else ""
    return f"{made.get('machine', 'unknown')}{' with ' if words else ''}{words}"
