"""Text that is safe to print on one line of a terminal."""

from __future__ import annotations

from ptq.core.remote import redact


def to_one_line(text: str) -> str:
    """Replace line breaks by spaces and control characters by U+FFFD; names in files may contain them.

    URLs are shown without user, password and query.
    """
    return "".join(c if c.isprintable() else "\ufffd" for c in " ".join(redact(text).split()))
