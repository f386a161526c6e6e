"""The sections of docs/troubleshooting.md that the figures of a report lead to."""

from __future__ import annotations

from collections.abc import Iterator

from ptq.core.topics import Topic
from ptq.evaluation.measurements import Evaluation
from ptq.evaluation.presentation.verdict import summarize_verdict
from ptq.evaluation.report.report_data import ReportData

_SMALLER = 3.5
"""Ratio of sizes from which nobody asks why it is not 4."""
_FEW_INTEGERS = 0.5
"""Share of nodes in integers below which most of the model is float."""


def list_topics(report: ReportData) -> tuple[Topic, ...]:
    """The sections, in the order of the verdict."""
    return tuple(dict.fromkeys(_iterate_topics(report)))


def _iterate_topics(report: ReportData) -> Iterator[Topic]:
    verdict = summarize_verdict(report)
    if report.evaluation is not None:
        yield from _iterate_answer_topics(report.evaluation, "bad" in [f.tone for f in verdict[:2]])
    if report.budget is not None and report.budget.verdict == "undecided":
        yield "the-budget-is-undecided"
    if report.speed_shortfall or ("speed", "bad") in [(f.name, f.tone) for f in verdict]:
        yield "slower-than-float"
    if report.float_bytes < _SMALLER * report.int8_bytes:
        yield "not-four-times-smaller"
    integers = sum(row.fate != "float" for row in report.nodes)
    if integers < _FEW_INTEGERS * len(report.nodes):
        yield "nothing-or-hardly-anything-is-quantized"
    if report.saturable:
        yield "differs-on-another-machine"


def _iterate_answer_topics(evaluation: Evaluation, bad: bool) -> Iterator[Topic]:
    if bad and evaluation.task is not None and evaluation.task.name == "detect":
        yield "detections-are-all-zero-or-all-shifted"
    if bad:
        yield "accuracy-collapsed"
    elif evaluation.changed_samples:
        yield "a-few-answers-changed"
