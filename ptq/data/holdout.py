"""Splits of samples by the SHA-256 of their identity: held-out fifth, held-out fourth, and folds.

The identity is the relative path, or the row index. A split depends neither on the order of the samples nor on
chance.

1. The fifth with the lowest digests is held out to measure accuracy on, if no other samples are given.
2. Every fourth of the calibration samples by rank validates what the others choose before and after calibration. All
   stages take the same samples, so that no sample validates one stage after another stage was fitted on it.
"""

from __future__ import annotations

import hashlib

from ptq.data.sample import Samples

MIN_SAMPLES = 50
VALIDATION_SHARE = 4
"""One calibration sample in so many is held out for validation."""


def split_holdout(samples: Samples) -> tuple[Samples, Samples]:
    """The samples to calibrate with, and the samples to measure accuracy on.

    With fewer than 50 samples both are the argument itself; reports then mark figures 'on calibration samples'.
    """
    if len(samples) < MIN_SAMPLES:
        return samples, samples
    ranked = _rank_by_digest(samples)
    cut = len(ranked) // 5
    return samples.subset(ranked[cut:]), samples.subset(ranked[:cut])


def split_every_fourth(samples: Samples) -> tuple[Samples, Samples]:
    """The samples to fit on, and the held-out samples that validate: every fourth by rank of the digests.

    With fewer than 4 samples none is held out.
    """
    ranked = _rank_by_digest(samples)
    held_out = ranked[VALIDATION_SHARE - 1 :: VALIDATION_SHARE]
    return samples.subset(set(ranked).difference(held_out)), samples.subset(held_out)


def spread_with_validation(samples: Samples, count: int) -> tuple[Samples, Samples]:
    """At most ``count`` samples, evenly spread: three quarters to fit on, and a quarter that validates.

    They are parts of what `split_every_fourth` returns for all samples, whatever the count.
    """
    training, held_out = split_every_fourth(samples)
    fourth = count // VALIDATION_SHARE
    return training.spread(count - fourth), held_out.spread(fourth)


def split_folds(samples: Samples, count: int) -> list[Samples]:
    """The samples, split into ``count`` folds whose sizes differ by at most 1."""
    ranked = _rank_by_digest(samples)
    return [samples.subset(ranked[first::count]) for first in range(count)]


def rank_by_digest(samples: Samples) -> list[str]:
    """The names of the samples, in ascending order of the digests of their identities."""
    names = samples.names
    return [names[index] for index in _rank_by_digest(samples)]


def _rank_by_digest(samples: Samples) -> list[int]:
    """The indices of the samples, in ascending order of their digests."""
    digests = [
        hashlib.sha256(identity.encode("utf-8", "surrogateescape")).digest()
        for identity in samples.identities
    ]
    return sorted(range(len(digests)), key=digests.__getitem__)
