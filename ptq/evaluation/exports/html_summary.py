"""Short report as an HTML fragment, which a notebook shows in place of ``repr``."""

from __future__ import annotations

from html import escape

from ptq.evaluation.exports.summary import ACCURACY_TITLES, TENSOR_TITLES, Summary
from ptq.evaluation.html_elements import render_list, render_table


def render_fragment(summary: Summary) -> str:
    """The short report as an HTML fragment; names from the model are escaped."""
    parts = [f"<p><strong>{escape(summary.title)}</strong></p>"]
    if summary.warnings:
        parts += ["<p><strong>Warnings</strong></p>", render_list(summary.warnings)]
    if summary.accuracy:
        parts.append(render_table(ACCURACY_TITLES, summary.accuracy))
    parts.append(render_list(summary.facts))
    if summary.tensors:
        parts.append("<p><strong>Lowest SQNR</strong></p>")
        parts.append(render_table(TENSOR_TITLES, summary.tensors))
    return f"<div>{''.join(parts)}</div>"
