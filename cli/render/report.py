"""Report of a quantization on a terminal of any width, or in a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import typer
from rich.console import RenderableType
from rich.table import Table

from ptq.core.wording import format_decibels, plural
from ptq.data.splits import ON_CALIBRATION
from ptq.evaluation.form_titles import title_forms
from ptq.evaluation.presentation.questions import list_topics
from ptq.evaluation.presentation.report_wording import NOT_MEASURED, TOO_OPTIMISTIC
from ptq.evaluation.presentation.verdict import describe_verdict

from ..one_line import to_one_line
from ..verbosity import is_quiet, is_verbose
from .drops import render_budget, render_search
from .screen import (
    format_heading,
    format_paragraph,
    format_percent,
    format_questions,
    format_table,
    format_warnings,
    show,
)
from .tables import render_forms, render_islands, render_nodes

if TYPE_CHECKING:
    from ptq.evaluation.exports.report import Report

_MAX_WORST_TENSORS = 3


def count_shown() -> int | None:
    """How many tensors with the lowest SQNR are shown; None for all."""
    return None if is_verbose() else _MAX_WORST_TENSORS


def render_report(
    result: Report,
    output: str,
    next_command: str,
    histograms: Mapping[str, str] | None = None,
) -> None:
    """Print a report.

    Args:
        result: The report.
        output: Path of the quantized model.
        next_command: The command to run next; it is printed on one line of any length.
        histograms: The values of tensors, by name, as one line of blocks.
    """
    if is_quiet():
        return
    show(*format_warnings(result.warnings, result.suspects))
    show(*_render_verdict(result, output))
    show(*_render_provenance(result))
    show(*_render_accuracy(result))
    if result.search is not None:
        show(*render_search(result.search, result.nodes, result.budget))
    show(*render_nodes(result.nodes), *render_islands(result.islands))
    show(*(format_paragraph(f"note: {note}") for note in result.notes))
    if result.tensors:
        count = len(result.tensors[: count_shown()])
        more = "; -v shows all" if count < len(result.tensors) else ""
        title = f"Lowest SQNR: {count} of {plural(len(result.tensors), 'tensor')}{more}"
        show(format_heading(title), _tabulate_worst_tensors(result, count, histograms or {}))
    show(*_render_verdict(result, output), *format_questions(*list_topics(result)))
    typer.echo(f"Written: {to_one_line(output)}. Next: {to_one_line(next_command)}")


def _render_verdict(result: Report, output: str) -> Iterator[RenderableType]:
    """The four lines that stand first and last."""
    yield format_heading(f"{result.model} → {output}")
    lines = describe_verdict(result)
    serious = any(suspect.serious for suspect in result.suspects)
    style = "red" if serious or result.over_budget else "bold"
    yield format_paragraph(lines[0], style)
    yield from map(format_paragraph, lines[1:])


def _render_provenance(result: Report) -> Iterator[RenderableType]:
    choices = f"target {result.target}, format {result.form}, range method {result.method}"
    yield format_paragraph(
        f"{choices}, calibrated on {plural(result.calibration_samples, 'sample')}"
    )
    for line in result.describe_preprocessing():
        yield format_paragraph(line)
    for change in result.changes:
        yield format_paragraph(change)
    if result.skipped:
        name, reason = result.skipped[0]
        text = f"skipped {plural(len(result.skipped), 'bad sample')}; first: {name}: {reason}"
        yield format_paragraph(text, "yellow")


def _render_accuracy(result: Report) -> Iterator[RenderableType]:
    evaluation = result.evaluation
    if evaluation is None:
        yield format_heading(NOT_MEASURED)
        return
    count = plural(evaluation.samples, "sample")
    if result.evaluated_on == ON_CALIBRATION:
        yield format_heading(f"Accuracy ON CALIBRATION SAMPLES ({count}), output {evaluation.head}")
        yield format_paragraph(TOO_OPTIMISTIC, "yellow")
    else:
        shown = "" if result.shared_samples else f" ({count})"  # else the description has it
        yield format_heading(f"Accuracy {result.evaluated_on}{shown}, output {evaluation.head}")
    yield from render_forms(evaluation, title_forms(evaluation, result.arithmetic))
    if result.budget is not None:
        yield render_budget(result.budget)


def _tabulate_worst_tensors(result: Report, count: int, histograms: Mapping[str, str]) -> Table:
    drawn = ["\nvalues"] if histograms else []
    table = format_table(
        "SQNR\ndB", "rounding,\nclipping %", "saturated\n%", "\nrange", *drawn, "\ntensor (why)",
        left=["\ntensor (why)", *drawn],
    )  # fmt: skip
    for row in result.tensors[:count]:
        table.add_row(
            format_decibels(row.sqnr_db),
            f"{format_percent(row.rounding, 0)}, {format_percent(1 - row.rounding, 0)}",
            format_percent(row.saturation, 3),
            f"{row.lo:.3g} … {row.hi:.3g}",
            *([histograms.get(row.name, "")] if drawn else []),
            to_one_line(f"{row.name} ({row.why.partition(';')[0]})"),
        )
    return table
