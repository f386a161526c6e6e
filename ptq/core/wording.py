"""How a number of things reads in a sentence."""

from __future__ import annotations


def plural(number: int, thing: str) -> str:
    """``1 Pad node``, ``3 Pad nodes``."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
