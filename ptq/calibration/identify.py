"""Identity of the samples that a calibration counted, with the versions and the processor that counted them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import chain

from ptq.data import Samples
from ptq.data.sample_digest import combine_digests
from ptq.model.machine.maker import describe_maker
from ptq.observers.sample_identity import SampleIdentity
from ptq.observers.sample_listing import count_shard
from ptq.observers.sample_prefixes import Prefixes, keep_prefixes

Listing = tuple[str, int, str]
"""The digest of the names of a listing, how many there are, and of rows the digest of the first one; else empty."""


def digest_listing(samples: Samples) -> Listing:
    """The listing of which these samples are a shard, or the whole."""
    digest, total = combine_digests([]), 0
    for identity in samples.listed_identities:
        digest, total = combine_digests([bytes.fromhex(digest), _digest_text(identity)]), total + 1
    return digest, total, samples.digest_first_row().hex()


def identify_samples(samples: Samples, listing: Listing | None = None) -> SampleIdentity:
    """The identity of samples that were read; of a listing whose digest may be known."""
    digest, total, first = listing or digest_listing(samples)
    counted = count_shard(digest, total, samples.shard_of, first)
    members = find_members(samples.digests_by_name)
    return SampleIdentity((counted,), samples.digest, members, (describe_maker(),))


def find_members(samples: Iterable[tuple[str, bytes]]) -> Prefixes:
    """Short digests of name and content together of samples, each given by its identity and its digest."""
    return keep_prefixes(
        hashlib.sha256(_digest_text(identity) + digest).digest() for identity, digest in samples
    )


def find_contents(samples: Samples) -> Prefixes:
    """Short digests of the contents of samples that were read, and of the patterns of images."""
    return keep_prefixes(chain.from_iterable(samples.fingerprints.values()))


def _digest_text(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
