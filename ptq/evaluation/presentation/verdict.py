"""The verdict of a report in five figures: accuracy, agreement, speed, size, and the share of integers."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal

from ptq.core.targets import get_target
from ptq.core.wording import describe_size_ratio, format_decibels, format_size, plural
from ptq.data.splits import ON_CALIBRATION
from ptq.evaluation.drop import (
    ERROR,
    SIGNIFICANCE_LEVEL,
    SOME_POINTS,
    TOP1,
    Drop,
    describe_metric_change,
)
from ptq.evaluation.intervals import Interval, is_rough
from ptq.evaluation.measurements import Evaluation, FormMetrics
from ptq.evaluation.metrics import LOSSY_DB, Fidelity, describe_other_shapes
from ptq.evaluation.report.report_data import ReportData

_CLEAR_SPEED = 0.05
"""A speed is another one than float's if its whole interval is that far from 1."""
_MANY_POINTS = 5.0
"""Changed decisions that most uses notice."""
_SAME_DB, _USUAL_DB = 35.0, 20.0

Tone = Literal["", "good", "warn", "bad"]


@dataclass(frozen=True)
class VerdictFigure:
    """One figure of a verdict.

    Attributes:
        name: What it is, in one or two words.
        value: The figure.
        notes: What makes it precise.
        tone: Whether it is good or bad; empty for neither.
    """

    name: str
    value: str
    notes: tuple[str, ...] = ()
    tone: Tone = ""


def summarize_verdict(report: ReportData) -> tuple[VerdictFigure, ...]:
    """The figures, the most important first."""
    evaluation = report.evaluation
    measured = (
        [VerdictFigure("accuracy", "not measured", ("no samples",), "warn")]
        if evaluation is None
        else [
            _summarize_accuracy(report, evaluation),
            _advise_wide_target(
                report,
                evaluation,
                summarize_similarity(evaluation.forms["int8"], evaluation.head),
            ),
        ]
    )
    speed = [] if report.speed is None else [_summarize_speed(report, report.speed)]
    return (*measured, *speed, _summarize_size(report), _summarize_integers(report))


def describe_verdict(report: ReportData) -> tuple[str, ...]:
    """The verdict in four lines: accuracy, agreement, size and speed, integers."""
    figures = {figure.name: figure for figure in summarize_verdict(report)}
    integers = figures.pop("integers")
    figures.pop("size")
    figures.pop("speed", None)
    lines = [f"{f.name}: {f.value}{_join_notes(f.notes)}" for f in figures.values()]
    sizes = f"size {format_size(report.float_bytes)} → {format_size(report.int8_bytes)}"
    ratio = describe_size_ratio(report.float_bytes, report.int8_bytes)
    speed = f"; {report.speed_sentence}" if report.speed_sentence else ""
    lines.append(f"{sizes} ({ratio}){speed}")
    return (*lines, f"{integers.value} in integers{_join_notes(integers.notes)}")


def _join_notes(notes: tuple[str, ...]) -> str:
    return f" ({', '.join(notes)})" if notes else ""


def shorten_change(drop: Drop) -> str:
    """A drop as a change, without the name of its metric."""
    return describe_metric_change(drop)[0].removeprefix(f"{drop.metric.removesuffix(' accuracy')} ")


def describe_sqnr(fidelity: Fidelity) -> str:
    """What the SQNR of an output usually means."""
    decibels = fidelity.sqnr_db
    if fidelity.other_shapes:
        return f"{describe_other_shapes(fidelity)}, as of detectors with other boxes"
    if decibels == -math.inf:
        return "values are infinite"
    if decibels >= _SAME_DB:
        return "practically float's values"
    if decibels >= _USUAL_DB:
        return "usual for int8"
    return "some loss is likely" if decibels >= LOSSY_DB else "expect lost accuracy"


def _summarize_accuracy(report: ReportData, evaluation: Evaluation) -> VerdictFigure:
    form = evaluation.forms["int8"]
    drop = form.drop
    if drop is None:
        return VerdictFigure("accuracy", "no drop measured")
    interval = describe_metric_change(drop)[1]
    notes, value, name = [interval], shorten_change(drop), drop.metric
    if _may_hide_loss(drop):
        value = f"no change in {plural(drop.samples, 'sample')}"
        notes = [f"a loss of up to {drop.hi:.2f} points is possible", "95 % CI"]
    shares = _find_labelled_shares(evaluation.forms["float"], form, drop)
    labelled = shares is not None
    lost = labelled and drop.lo > 0
    if shares is not None:
        name = "top-1 accuracy" if drop.metric == TOP1 else drop.metric
        notes.insert(0, f"{100 * shares[0]:.2f} % → {100 * shares[1]:.2f} %")
        if drop.lo <= 0 <= drop.hi if drop.p is None else drop.p >= SIGNIFICANCE_LEVEL:
            value = "no significant change"
            notes.insert(1, shorten_change(drop))
    if report.evaluated_on == ON_CALIBRATION:
        notes.insert(0, "measured ON CALIBRATION SAMPLES: too optimistic")
    if any(suspect.serious for suspect in report.suspects):
        notes.insert(0, "read the warnings first")
        return VerdictFigure(name, value, tuple(notes), "bad")
    if drop.metric == ERROR and form.outputs[evaluation.head].sqnr_db < _USUAL_DB:
        notes.insert(0, describe_sqnr(form.outputs[evaluation.head]))
    exceeded = report.over_budget or lost
    if drop.metric != ERROR and not labelled and not exceeded:
        tone = _choose_tone(-drop.lo, -_MANY_POINTS, -SOME_POINTS)
        return VerdictFigure(name, value, tuple(notes), tone)
    good = labelled and not exceeded and report.evaluated_on != ON_CALIBRATION
    return VerdictFigure(name, value, tuple(notes), "bad" if exceeded else "good" if good else "")


def _may_hide_loss(drop: Drop) -> bool:
    """Whether nothing was lost, of a metric that cannot gain, on samples too few to exclude a loss."""
    return drop.metric not in (TOP1, ERROR) and drop.points == drop.lo == 0 < drop.hi


def _find_labelled_shares(
    before: FormMetrics, after: FormMetrics, drop: Drop
) -> tuple[float, float] | None:
    """The figure that the drop is of, of the float model and of another form; None without labels."""
    if drop.metric == TOP1 and before.accuracy is not None and after.accuracy is not None:
        return before.accuracy.top1, after.accuracy.top1
    for one, other in zip(before.figures, after.figures, strict=False):
        if one.name == other.name == drop.metric:
            return one.value, other.value
    return None


def summarize_similarity(form: FormMetrics, head: str) -> VerdictFigure:
    """How close a form is to the reference in the output that decides."""
    fidelity = form.outputs[head]
    decibels = f"{format_decibels(fidelity.sqnr_db)} dB"
    meaning = describe_sqnr(fidelity)
    if fidelity.agreement is None:
        undefined = fidelity.sqnr_db == -math.inf
        tone: Tone = "warn" if undefined else _choose_tone(fidelity.sqnr_db, LOSSY_DB, _USUAL_DB)
        return VerdictFigure("SQNR", decibels, (meaning, f"output {head}"), tone)
    agrees = f"{100 * fidelity.agreement:.2f} %"
    tone = _choose_tone(100 * fidelity.agreement, 100 - _MANY_POINTS, 100 - SOME_POINTS)
    return VerdictFigure("same answer as float", agrees, (f"SQNR {decibels}: {meaning}",), tone)


def _advise_wide_target(
    report: ReportData, evaluation: Evaluation, figure: VerdictFigure
) -> VerdictFigure:
    """Name the target with activations of 16 bits where 8 bits are likely to lose accuracy."""
    fidelity, wide = (
        evaluation.forms["int8"].outputs[evaluation.head],
        get_target(report.target).wide_target,
    )
    if wide is None or fidelity.other_shapes or not -math.inf < fidelity.sqnr_db < _USUAL_DB:
        return figure
    return replace(figure, notes=(*figure.notes, f"try target {wide}, with activations of 16 bits"))


def _choose_tone(value: float, bad: float, warn: float) -> Tone:
    return "bad" if value < bad else "warn" if value < warn else ""


def _summarize_speed(report: ReportData, speed: float) -> VerdictFigure:
    notes = [report.speed_source]
    tone: Tone = ""
    if report.speed_interval is not None:
        low, high = report.speed_interval
        notes += describe_speed_interval(report.speed_interval)
        if is_rough(report.speed_interval):
            tone = "warn"
        elif report.is_timed_in_its_runtime:
            tone = "good" if low > 1 + _CLEAR_SPEED else "bad" if high < 1 - _CLEAR_SPEED else ""
    return VerdictFigure("speed", f"{speed:.2f}× float", tuple(notes), tone)


def describe_speed_interval(interval: Interval) -> tuple[str, ...]:
    """The 95 % interval of a speed in words, with its doubt if it is wide; empty if there is none."""
    low, high = interval
    if not 0 < low < high < math.inf:
        return ()
    doubt = "uncertain, " if is_rough(interval) else ""
    return (f"{doubt}95 % CI {low:.2f} … {high:.2f}",)


def _summarize_size(report: ReportData) -> VerdictFigure:
    sizes = f"{format_size(report.float_bytes)} → {format_size(report.int8_bytes)}"
    larger = report.int8_bytes > report.float_bytes
    ratio = describe_size_ratio(report.float_bytes, report.int8_bytes)
    return VerdictFigure("size", ratio, (sizes,), "bad" if larger else "")


def _summarize_integers(report: ReportData) -> VerdictFigure:
    counts = Counter(row.fate for row in report.nodes)
    total = sum(counts.values())
    value = f"{total - counts['float']} of {total} nodes"
    parts = ", ".join(
        f"{counts[fate]} {fate}" for fate in ("int8", "folded", "clamp", "float") if counts[fate]
    )
    return VerdictFigure("integers", value, (parts,) if parts else ())
