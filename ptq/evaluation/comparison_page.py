"""A comparison of two models in words, and as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptq.core.preprocess_wording import describe_preprocessing
from ptq.core.wording import format_decibels, format_size, plural
from ptq.evaluation.comparison import Comparison
from ptq.evaluation.drop import describe_drop, describe_metric_change
from ptq.evaluation.form_titles import name_runtime
from ptq.evaluation.intervals import describe_speed
from ptq.evaluation.metrics import describe_other_shapes
from ptq.evaluation.presentation.changed import build_changed
from ptq.evaluation.presentation.classes import build_classes
from ptq.evaluation.presentation.making import build_run
from ptq.evaluation.presentation.result_page import render_result
from ptq.evaluation.presentation.verdict import (
    Tone,
    VerdictFigure,
    describe_speed_interval,
    describe_sqnr,
    shorten_change,
)
from ptq.evaluation.task_wording import describe_figures, describe_task
from ptq.page.blocks import Lines
from ptq.page.page import RunFact, Section

_NAMES = ("old", "new")


def render_comparison_page(result: Comparison, made: Sequence[RunFact] = ()) -> str:
    """The comparison as an HTML document: verdict, figures, changed samples, classes.

    Args:
        result: The comparison.
        made: What else is known of the run: names with values.
    """
    classes = {} if result.labels is None else result.labels.classes
    lines = list(describe_comparison(result))
    if result.budget is not None:
        lines.append(result.budget.sentence)
    skipped = tuple(f"skipped: {name}: {reason}" for name, reason in result.skipped)
    return render_result(
        "Comparison of two models",
        describe_models(result),
        result,
        _summarize(result),
        (
            Section("figures", "Figures", [Lines(tuple(lines)), *([Lines(skipped, "warn")] if skipped else [])]),
            build_changed(result.changed, result.changed_samples, result.samples, classes=classes, names=_NAMES),
            build_classes(
                (result.old_by_class, result.new_by_class),
                (result.old_confusion, result.new_confusion),
                classes,
                _NAMES,
            ),
            build_run(made),
        ),
    )  # fmt: skip


def _summarize(result: Comparison) -> Iterator[VerdictFigure]:
    notes, worse = (describe_metric_change(result.drop)[1],), result.drop.lo > 0
    tone: Tone = "bad" if worse else ""
    yield VerdictFigure(result.drop.metric, shorten_change(result.drop), notes, tone)
    fidelity = result.outputs[result.head]
    decibels = f"{format_decibels(fidelity.sqnr_db)} dB"
    yield VerdictFigure("SQNR of new against old", decibels, (describe_sqnr(fidelity),))
    yield VerdictFigure(
        "speed",
        f"{result.speed:.2f}× the old model",
        (
            f"{_describe_runtimes(result.speed_runtimes)}, batch 1",
            *describe_speed_interval(result.speed_interval),
        ),
    )
    sizes = f"{format_size(result.old_bytes)} → {format_size(result.new_bytes)}"
    yield VerdictFigure("size", f"× {result.new_bytes / max(result.old_bytes, 1):.2f}", (sizes,))


def describe_models(result: Comparison) -> str:
    """What was compared."""
    return f"{result.old} → {result.new}, on {plural(result.samples, 'sample')}"


def describe_comparison(result: Comparison) -> Iterator[str]:
    """All figures, a line each."""
    if result.preprocessing:
        yield describe_preprocessing(result.preprocessing)
    if result.labels is not None:
        yield str(result.labels)
    yield from describe_task(result.task)
    if result.old_accuracy is not None and result.new_accuracy is not None:
        yield (
            f"top-1 {_format_percent(result.old_accuracy.top1)} % → "
            f"{_format_percent(result.new_accuracy.top1)} %"
        )
    yield describe_drop(result.drop)
    if result.old_figures:
        yield f"old: {describe_figures(result.old_figures)}"
    if result.figures:
        yield f"{'new: ' if result.old_figures else ''}{describe_figures(result.figures)}"
    for name, fidelity in result.outputs.items():
        agreement, other = "", describe_other_shapes(fidelity)
        if fidelity.agreement is not None:
            agreement = f"agrees {_format_percent(fidelity.agreement)} %, "
        yield (
            f"output {name}: {agreement}SQNR {format_decibels(fidelity.sqnr_db)} dB, "
            f"cosine {fidelity.cosine:.6f}{', ' if other else ''}{other}"
        )
    ratio = result.new_bytes / max(result.old_bytes, 1)
    yield f"size {format_size(result.old_bytes)} → {format_size(result.new_bytes)} (× {ratio:.2f})"
    where = _describe_runtimes(result.speed_runtimes)
    yield describe_speed(result.speed, result.speed_interval, "the old model", f"{where}, batch 1")


def _format_percent(share: float) -> str:
    return f"{100 * share:.2f}"


def _describe_runtimes(runtimes: tuple[str, str]) -> str:
    """Where the speed of two models was measured, in words."""
    old, new = map(name_runtime, runtimes)
    return new if old == new else f"the old model in {old}, the new one in {new}"
