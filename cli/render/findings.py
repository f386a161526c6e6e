"""Findings of ``ptq lint`` on the terminal, a row for each rule."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ptq.core.wording import plural

from ..one_line import to_one_line
from .screen import (
    format_heading,
    format_paragraph,
    format_questions,
    format_record,
    format_table,
    show,
)

if TYPE_CHECKING:
    from ptq.core.record import Record
    from ptq.verification.lint_rules import Finding
    from ptq.verification.slow_integers import SlowPattern

MAX_PLACES = 3


def render_findings(
    findings: Sequence[Finding], model: Path, recorded: Record | None, *, target: str, made_for: str
) -> None:
    """Print where a model breaks the specification or leaves it.

    Args:
        findings: What was found.
        model: The model.
        recorded: The preprocessing that its metadata record.
        target: The target whose rules were checked.
        made_for: The target that the model was quantized for, as its metadata record; empty if unknown.
    """
    errors = sum(finding.severity == "error" for finding in findings)
    notes = len(findings) - errors
    show(
        format_heading(
            f"{model}, rules of {target}: {plural(errors, 'error')}, {plural(notes, 'note')}"
        ),
        *format_record(recorded, "the model"),
    )
    if not findings:
        return
    if errors and made_for not in ("", target):
        show(
            format_paragraph(
                f"the model was quantized for {made_for}; these errors matter only where the rules of {target} hold"
            )
        )
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in sorted(findings, key=lambda finding: finding.severity):
        groups.setdefault((finding.severity, finding.rule), []).append(finding)
    table = format_table("", "rule", "finding", left=["rule", "finding"])
    for (severity, rule), group in groups.items():
        table.add_row(str(len(group)), f"{severity}\n{rule}", _describe(group))
    show(table)
    if len(groups) < len(findings):
        show(format_paragraph("each rule is shown with its first findings; --json lists all"))
    if errors:
        show(*format_questions("does-not-load"))


def render_slow_patterns(found: Sequence[SlowPattern]) -> None:
    """Print the usual reasons for slow integers, a line each."""
    show(*(format_paragraph(to_one_line(f"{p.cause} (ONNX Runtime): {p}")) for p in found))


def _describe(group: Sequence[Finding]) -> str:
    """The first finding of a rule, and the nodes of some others."""
    first = group[0]
    text = f"{first.node}, {first.tensor}: {first.text}\n({first.clause})"
    others = list(dict.fromkeys(f.node for f in group if f.node != first.node))
    if not others:
        return text
    rest = len(others) - MAX_PLACES
    more = f" and {plural(rest, 'node')} more" if rest > 0 else ""
    return f"{text}\nalso: {', '.join(others[:MAX_PLACES])}{more}"
