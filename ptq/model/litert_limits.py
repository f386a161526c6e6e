"""Scales on which LiteRT's integer kernels end their process, found with LiteRT 2.3.0, or that they do not have.

Add, Sub      the output's multiplier 2 · max(s₁, s₂) / (2^shift · s₀) must be below 1
comparisons   the scale of an input must not be 1
Clip          16 bits keep the scale, except in RELU and RELU6; 8 bits have tables
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

SUMS = frozenset(["Add", "Sub", "Sum"])
COMPARISONS = frozenset(["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
_SHIFTS: Mapping[int, int] = {8: 20, 16: 15}
"""The left shift of a sum's inputs by the bits of its integers."""
_MARGIN = 2.0**-20
"""Relative distance from 1 within which the multiplier could be rounded to 1."""


def find_sum_limit(inputs: Sequence[float], output: float, bits: int) -> str:
    """Why LiteRT cannot add integers of these scales; empty if it can."""
    largest, shift = max(inputs), _SHIFTS[bits]
    if 2 * largest < 2**shift * output * (1 - _MARGIN):
        return ""
    return (
        f"LiteRT cannot add integers of scale {largest:.3g} to a sum of scale {output:.3g}, "
        f"which is not above 2^-{shift - 1} of that"
    )


def find_comparison_limit(inputs: Sequence[float]) -> str:
    """Why LiteRT cannot compare integers of these scales; empty if it can."""
    return "LiteRT cannot compare integers of scale 1" if 1.0 in inputs else ""


def find_clamp_limit(bounds: tuple[float, float], bits: int) -> str:
    """Why LiteRT cannot clamp integers and change their scale; empty if it can."""
    if bits == 8 or bounds in ((0.0, math.inf), (0.0, 6.0)):
        return ""
    lo, hi = bounds
    return f"LiteRT cannot clamp 16-bit integers to {lo:g} … {hi:g} and change their scale"
