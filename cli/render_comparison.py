"""Comparison of two models on the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from ptq.core.preprocess_wording import describe_preprocessing
from ptq.core.wording import format_decibels, format_size, plural
from ptq.evaluation.compare import Comparison
from ptq.evaluation.drop import describe_drop
from ptq.evaluation.exports.summary import Summary
from ptq.evaluation.task_wording import describe_figures, describe_task

from .render_drops import render_budget
from .screen import (
    format_heading,
    format_paragraph,
    format_percent,
    format_warnings,
    show,
)


def render_comparison(result: Comparison) -> None:
    """Print a comparison."""
    show(*format_warnings(result.warnings, result.suspects))
    show(format_heading(_title(result)))
    show(*(format_paragraph(line) for line in _facts(result)))
    if result.budget is not None:
        show(render_budget(result.budget))


def summarize_comparison(result: Comparison) -> Summary:
    """The short form of a comparison, for Markdown."""
    budget = () if result.budget is None else (result.budget.sentence,)
    return Summary(_title(result), (*_facts(result), *budget), (), result.warnings, ())


def _title(result: Comparison) -> str:
    return f"{result.old} → {result.new}, on {plural(result.samples, 'sample')}"


def _facts(result: Comparison) -> Iterator[str]:
    if result.preprocessing:
        yield describe_preprocessing(result.preprocessing)
    if result.labels is not None:
        yield str(result.labels)
    yield from describe_task(result.task)
    if result.old_accuracy is not None and result.new_accuracy is not None:
        yield (
            f"top-1 {format_percent(result.old_accuracy.top1)} % → "
            f"{format_percent(result.new_accuracy.top1)} %"
        )
    yield describe_drop(result.drop)
    if result.figures:
        yield describe_figures(result.figures)
    for name, fidelity in result.outputs.items():
        agreement = ""
        if fidelity.agreement is not None:
            agreement = f"agrees {format_percent(fidelity.agreement)} %, "
        yield (
            f"output {name}: {agreement}SQNR {format_decibels(fidelity.sqnr_db)} dB, "
            f"cosine {fidelity.cosine:.6f}"
        )
    ratio = result.new_bytes / max(result.old_bytes, 1)
    yield f"size {format_size(result.old_bytes)} → {format_size(result.new_bytes)} (× {ratio:.2f})"
    yield f"speed {result.speed:.2f}× the old model (ONNX Runtime, batch 1)"
