"""Ratios of energies in decibels: +6 dB halves the amplitude of an error."""

from __future__ import annotations

import math


def to_sqnr_db(signal: float, noise: float) -> float:
    """The signal-to-quantization-noise ratio: inf without noise, -inf without signal."""
    if not noise:
        return math.inf
    ratio = signal / noise
    return 10 * math.log10(ratio) if ratio else -math.inf


def to_error_db(share: float) -> float:
    """An error's share of the signal's energy: negative below 1, -inf for 0; the SQNR is its negative."""
    return 10 * math.log10(share) if share > 0 else -math.inf
