"""Identifiers of nodes and tensors, for links within a page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote


def assign_anchors(prefix: str, names: Iterable[str]) -> dict[str, str]:
    """An identifier of HTML for each name: the prefix and the name, which a number makes unique.

    Args:
        prefix: The kind of thing, for example ``node``.
        names: The names; they may hold any character.
    """
    anchors, taken = dict[str, str](), set[str]()
    for name in dict.fromkeys(names):
        base = f"{prefix}-{re.sub(r'[^!-~]', '_', name)}"  # white space ends an identifier
        anchor, number = base, 1
        while anchor in taken:
            number += 1
            anchor = f"{base}~{number}"
        taken.add(anchor)
        anchors[name] = anchor
    return anchors


def link_to(anchors: Mapping[str, str], name: str) -> str:
    """The address of a name within the page; empty if it has none."""
    return f"#{quote(anchors[name])}" if name in anchors else ""
