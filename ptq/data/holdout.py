"""Which samples are held out to measure accuracy on, when no others are given, and which judge what others chose?

By the SHA-256 of their identity (relative path, or row index): the choice depends neither on the order of the samples
nor on chance. The fifth with the lowest is held out.
"""

from __future__ import annotations

import hashlib

from ptq.data.sample import Samples

MIN_SAMPLES = 50


def split_holdout(samples: Samples) -> tuple[Samples, Samples]:
    """The samples to calibrate with and those to measure accuracy on.

    With fewer than 50 both are the argument itself, and figures are to be marked 'on calibration
    samples'.
    """
    if len(samples) < MIN_SAMPLES:
        return samples, samples
    ranked = _rank_by_digest(samples)
    cut = len(ranked) // 5
    return samples.subset(ranked[cut:]), samples.subset(ranked[:cut])


def split_folds(samples: Samples, count: int) -> list[Samples]:
    """The samples in so many parts, alike in size."""
    ranked = _rank_by_digest(samples)
    return [samples.subset(ranked[first::count]) for first in range(count)]


def _rank_by_digest(samples: Samples) -> list[int]:
    """The places of the samples, by digest."""
    digests = [
        hashlib.sha256(identity.encode("utf-8", "surrogateescape")).digest()
        for identity in samples.identities
    ]
    return sorted(range(len(digests)), key=digests.__getitem__)
