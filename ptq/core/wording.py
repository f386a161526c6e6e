"""Numbers with nouns in sentences."""

from __future__ import annotations


def plural(number: int, thing: str) -> str:
    """Return the number and the noun: ``1 Pad node``, ``3 Pad nodes``."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
