"""Numbers with nouns and units in sentences."""

from __future__ import annotations

import math


def plural(number: int, thing: str) -> str:
    """Return the number and the noun: ``1 Pad node``, ``3 Pad nodes``."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def format_size(count: int) -> str:
    """Return a number of bytes in decimal units: ``459.6 kB``."""
    if count < 1_000_000:
        return f"{count / 1e3:.1f} kB"
    return f"{count / 1e6:.1f} MB"


def describe_size_ratio(before: int, after: int) -> str:
    """Return how a size changed, from a number of bytes to another: ``2.13 times smaller``."""
    ratio, word = (before / after, "smaller") if after <= before else (after / before, "larger")
    return f"{ratio:.2f} times {word}"


def format_change(points: float, digits: int = 2) -> str:
    """Return a difference with its sign, ``+0.40`` or ``−0.40``; zero has none: ``0.00``."""
    size = f"{abs(points):.{digits}f}"
    if float(size) == 0:
        return size
    return f"{'−' if points < 0 else '+'}{size}"


def format_decibels(value: float) -> str:
    """Return a number of dB, ``39.8``; ∞ without error."""
    return "∞" if value == math.inf else f"{value:.1f}"
