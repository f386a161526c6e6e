"""Comparison of two models on the terminal and as Markdown."""

from __future__ import annotations

from ptq.evaluation.comparison import Comparison
from ptq.evaluation.comparison_page import describe_comparison, describe_models
from ptq.evaluation.exports.summary import Summary

from .drops import render_budget
from .screen import (
    format_heading,
    format_paragraph,
    format_warnings,
    show,
)


def render_comparison(result: Comparison) -> None:
    """Print a comparison."""
    show(*format_warnings(result.warnings, result.suspects))
    show(format_heading(describe_models(result)))
    show(*(format_paragraph(line) for line in describe_comparison(result)))
    if result.budget is not None:
        show(render_budget(result.budget))


def summarize_comparison(result: Comparison) -> Summary:
    """The short form of a comparison, for Markdown."""
    budget = () if result.budget is None else (result.budget.sentence,)
    return Summary(
        describe_models(result), (*describe_comparison(result), *budget), (), result.warnings, ()
    )
