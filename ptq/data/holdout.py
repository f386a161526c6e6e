"""Splits of samples by the SHA-256 of their identity: held-out fifth, and folds.

The identity is the relative path, or the row index. A split depends neither on the order of the samples nor on
chance. The fifth with the lowest digests is held out to measure accuracy on, if no other samples are given.
"""

from __future__ import annotations

import hashlib

from ptq.data.sample import Samples

MIN_SAMPLES = 50


def split_holdout(samples: Samples) -> tuple[Samples, Samples]:
    """The samples to calibrate with, and the samples to measure accuracy on.

    With fewer than 50 samples both are the argument itself; reports then mark figures 'on calibration samples'.
    """
    if len(samples) < MIN_SAMPLES:
        return samples, samples
    ranked = _rank_by_digest(samples)
    cut = len(ranked) // 5
    return samples.subset(ranked[cut:]), samples.subset(ranked[:cut])


def split_folds(samples: Samples, count: int) -> list[Samples]:
    """The samples, split into ``count`` folds whose sizes differ by at most 1."""
    ranked = _rank_by_digest(samples)
    return [samples.subset(ranked[first::count]) for first in range(count)]


def _rank_by_digest(samples: Samples) -> list[int]:
    """The indices of the samples, in ascending order of their digests."""
    digests = [
        hashlib.sha256(identity.encode("utf-8", "surrogateescape")).digest()
        for identity in samples.identities
    ]
    return sorted(range(len(digests)), key=digests.__getitem__)
