"""Short report as an HTML fragment, which a notebook shows in place of ``repr``."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ptq.evaluation.exports.summary import ACCURACY_TITLES, TENSOR_TITLES, Summary


def render_fragment(summary: Summary) -> str:
    """The short report as an HTML fragment; names from the model are escaped."""
    parts = [f"<p><strong>{escape(summary.title)}</strong></p>"]
    if summary.warnings:
        parts += ["<p><strong>Warnings</strong></p>", _render_list(summary.warnings)]
    if summary.accuracy:
        parts.append(_render_table(ACCURACY_TITLES, summary.accuracy))
    parts.append(_render_list(summary.facts))
    if summary.tensors:
        parts.append("<p><strong>Lowest SQNR</strong></p>")
        parts.append(_render_table(TENSOR_TITLES, summary.tensors))
    return f"<div>{''.join(parts)}</div>"


def _render_list(lines: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def _render_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"
