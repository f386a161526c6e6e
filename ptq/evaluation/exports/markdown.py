"""Short report as Markdown, for pull requests and job summaries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ptq.evaluation.exports.summary import ACCURACY_TITLES, TENSOR_TITLES, Summary

_MARKS = re.compile(r"([\\`*_\[\]|~#])")


def render_markdown(summary: Summary) -> str:
    """The short report in GitHub's Markdown; names from the model are escaped."""
    return "\n".join(_format_lines(summary))


def _format_lines(summary: Summary) -> Iterator[str]:
    yield f"### {_escape(summary.title)}\n"
    if summary.warnings:
        yield "**Warnings**\n"
        yield from (f"- {_escape(warning)}" for warning in summary.warnings)
        yield ""
    if summary.accuracy:
        yield from _format_table(ACCURACY_TITLES, summary.accuracy, texts=(0, 5))
    yield from (f"- {_escape(fact)}" for fact in summary.facts)
    yield ""
    if summary.tensors:
        yield "**Lowest SQNR**\n"
        yield from _format_table(TENSOR_TITLES, summary.tensors, texts=(0, 1))


def _format_table(
    titles: Sequence[str], rows: Sequence[Sequence[str]], texts: Sequence[int]
) -> Iterator[str]:
    """A table whose columns hold numbers, except those at the positions ``texts``."""
    yield f"| {' | '.join(titles)} |"
    yield f"|{'|'.join('---' if i in texts else '---:' for i in range(len(titles)))}|"
    for row in rows:
        yield f"| {' | '.join(map(_escape, row))} |"
    yield ""


def _escape(text: str) -> str:
    """Text on one line that Markdown shows as it is."""
    line = "".join(c if c.isprintable() else "\ufffd" for c in " ".join(text.split()))
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        line = line.replace(character, entity)
    return _MARKS.sub(r"\\\1", line)
