"""Text that is safe to print on one line of a terminal."""

from __future__ import annotations


def one_line(text: str) -> str:
    """The text with line breaks and control characters taken out: names come from files."""
    return "".join(c if c.isprintable() else "\ufffd" for c in " ".join(text.split()))
