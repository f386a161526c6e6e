"""Held-out samples and cross-validation folds, chosen by a hash.

The samples are ranked by the SHA-256 of their identity (relative path, or row index). The choice therefore depends
neither on the order of the samples nor on chance. The fifth with the lowest hash is held out.
"""

from __future__ import annotations

import hashlib

from ptq.data.sample import Samples

MIN_SAMPLES = 50


def split_holdout(samples: Samples) -> tuple[Samples, Samples]:
    """Samples for calibration, and held-out samples for evaluation.

    With fewer than 50 samples both are the argument itself. Reports then say 'on calibration samples'.
    """
    if len(samples) < MIN_SAMPLES:
        return samples, samples
    ranked = _rank_by_digest(samples)
    cut = len(ranked) // 5
    return samples.subset(ranked[cut:]), samples.subset(ranked[:cut])


def split_folds(samples: Samples, count: int) -> list[Samples]:
    """The samples in ``count`` folds of equal size; sizes differ by at most one."""
    ranked = _rank_by_digest(samples)
    return [samples.subset(ranked[first::count]) for first in range(count)]


def _rank_by_digest(samples: Samples) -> list[int]:
    """Indices of the samples in the order of their hashes."""
    digests = [
        hashlib.sha256(identity.encode("utf-8", "surrogateescape")).digest()
        for identity in samples.identities
    ]
    return sorted(range(len(digests)), key=digests.__getitem__)
