"""Identity of the samples that a calibration counted, with the versions and the processor that counted them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from importlib.metadata import version
from itertools import chain

import numpy as np

from ptq.core.record import Record
from ptq.data import Samples
from ptq.data.sample_digest import combine_digests
from ptq.model.ort_version import ORT_VERSION
from ptq.model.processor import list_features, name_machine
from ptq.observers.sample_identity import SampleIdentity
from ptq.observers.sample_listing import count_shard
from ptq.observers.sample_prefixes import Prefixes, keep_prefixes


def identify_samples(samples: Samples) -> SampleIdentity:
    """The identity of samples that were read."""
    digest, total = combine_digests([]), 0
    for identity in samples.listed_identities:
        digest, total = combine_digests([bytes.fromhex(digest), _digest_text(identity)]), total + 1
    listing = count_shard(digest, total, samples.shard_of)
    members = find_members(samples.digests_by_name)
    return SampleIdentity((listing,), samples.digest, members, (describe_maker(),))


def find_members(samples: Iterable[tuple[str, bytes]]) -> Prefixes:
    """Short digests of name and content together of samples, each given by its identity and its digest."""
    return keep_prefixes(
        hashlib.sha256(_digest_text(identity) + digest).digest() for identity, digest in samples
    )


def find_contents(samples: Samples) -> Prefixes:
    """Short digests of the contents of samples that were read, and of the patterns of images."""
    return keep_prefixes(chain.from_iterable(samples.fingerprints.values()))


def describe_maker() -> Record:
    """Versions and kind of processor, as far as float results depend on them."""
    return {
        "ptq": version("onnx-ptq"),
        "onnxruntime": ORT_VERSION,
        "numpy": np.__version__,
        "machine": name_machine(),
        "features": list(list_features()),
    }


def _digest_text(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
