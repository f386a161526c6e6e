"""Tables and lists of HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def render_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts, which are escaped."""
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def render_list(lines: Iterable[str]) -> str:
    """A list of texts, which are escaped."""
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"
