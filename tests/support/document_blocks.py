"""Code blocks of the documents."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def python_blocks(page: str) -> list[str]:
    """The Python of a page of docs/, also the blocks that use names of the text around them."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(r"```python(?: skip)?\n(.*?)```", text, re.DOTALL)


def python_block(page: str, part: str) -> str:
    """The only Python block of a page that contains a text."""
    [block] = [block for block in python_blocks(page) if part in block]
    return block


def sections(page: str) -> dict[str, str]:
    """The text below each heading of the second level, by heading."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    parts = [part.partition("\n") for part in text.split("\n## ")[1:]]
    return {heading: body for heading, _, body in parts}
