"""Which samples are held out to measure accuracy on, when no others are given?

A fifth of them, those whose identity (relative path, or row index) has the lowest SHA-256: the
choice depends neither on the order of the samples nor on chance.
"""

from __future__ import annotations

import hashlib

from ptq.data.sample import Samples

MIN_SAMPLES = 50


def held_out(samples: Samples) -> tuple[Samples, Samples]:
    """The samples to calibrate with and those to measure accuracy on.

    With fewer than 50 both are the argument itself, and figures are to be marked 'on calibration
    samples'.
    """
    if len(samples) < MIN_SAMPLES:
        return samples, samples
    digests = [
        hashlib.sha256(identity.encode("utf-8", "surrogateescape")).digest()
        for identity in samples.identities
    ]
    ranked = sorted(range(len(digests)), key=digests.__getitem__)
    cut = len(ranked) // 5
    return samples.subset(ranked[cut:]), samples.subset(ranked[:cut])
