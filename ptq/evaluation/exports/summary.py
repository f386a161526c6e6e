"""The short form of a report: accuracy, size, speed, warnings, worst tensors. Markdown and notebooks show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ptq.core.wording import describe_size_ratio, format_decibels, format_size, plural
from ptq.evaluation.drop import describe_drop
from ptq.evaluation.form_titles import title_forms
from ptq.evaluation.measurements import Evaluation, FormMetrics
from ptq.evaluation.report.report_data import ReportData
from ptq.evaluation.task_wording import describe_forms, describe_task

WORST_TENSORS = 5
ACCURACY_TITLES = ("form", "top-1 %", "agrees %", "SQNR dB", "cosine", "change")
TENSOR_TITLES = ("tensor", "kind", "SQNR dB", "rounding %", "clipping %", "saturated %", "range")


@dataclass(frozen=True)
class Summary:
    """Texts of a short report, without markup.

    Attributes:
        title: Model, target and format.
        facts: Size, speed, samples, nodes and budget, a line each.
        accuracy: One row for each form, in the columns ``ACCURACY_TITLES``; empty if accuracy was not measured.
        warnings: What a reader must know before the figures, a line each.
        tensors: The tensors with the lowest SQNR, in the columns ``TENSOR_TITLES``.
    """

    title: str
    facts: tuple[str, ...]
    accuracy: tuple[tuple[str, ...], ...]
    warnings: tuple[str, ...]
    tensors: tuple[tuple[str, ...], ...]


def summarize_report(report: ReportData) -> Summary:
    """The short form of a report."""
    evaluation = report.evaluation
    titles = {} if evaluation is None else title_forms(evaluation, report.arithmetic)
    return Summary(
        title=f"{report.model}: target {report.target}, format {report.form}, range method {report.method}",
        facts=tuple(_list_facts(report)),
        accuracy=() if evaluation is None else summarize_forms(evaluation, titles),
        warnings=report.warnings,
        tensors=tuple(
            (
                row.name,
                row.kind,
                format_decibels(row.sqnr_db),
                f"{100 * row.rounding:.0f}",
                f"{100 * (1 - row.rounding):.0f}",
                f"{100 * row.saturation:.3f}",
                f"{row.lo:.3g} … {row.hi:.3g}",
            )
            for row in report.tensors[:WORST_TENSORS]
        ),
    )


def summarize_forms(
    evaluation: Evaluation, titles: Mapping[str, str]
) -> tuple[tuple[str, ...], ...]:
    """One row for each form of a model, in the columns ``ACCURACY_TITLES``."""
    return tuple(
        (titles.get(name, name), *_format_form(form, evaluation.head))
        for name, form in evaluation.forms.items()
    )


def _format_form(form: FormMetrics, head: str) -> tuple[str, ...]:
    fidelity = form.outputs.get(head)
    return (
        "" if form.accuracy is None else f"{100 * form.accuracy.top1:.2f}",
        "" if fidelity is None or fidelity.agreement is None else f"{100 * fidelity.agreement:.2f}",
        "" if fidelity is None else format_decibels(fidelity.sqnr_db),
        "" if fidelity is None else f"{fidelity.cosine:.6f}",
        "" if form.drop is None else describe_drop(form.drop),
    )


def _list_facts(report: ReportData) -> list[str]:
    facts = []
    if report.evaluation is None:
        facts.append("accuracy was not measured: no samples")
    else:
        facts.append(
            f"accuracy {report.evaluated_on} ({plural(report.evaluation.samples, 'sample')}), "
            f"output {report.evaluation.head}"
        )
        facts += [*describe_task(report.evaluation.task), *describe_forms(report.evaluation, {})]
    facts.append(f"calibrated on {plural(report.calibration_samples, 'sample')}")
    facts += report.describe_preprocessing()
    ratio = describe_size_ratio(report.float_bytes, report.int8_bytes)
    sizes = f"{format_size(report.float_bytes)} → {format_size(report.int8_bytes)}"
    facts.append(f"size {sizes} ({ratio})")
    if report.speed_sentence:
        facts.append(report.speed_sentence)
    counts = Counter(row.fate for row in report.nodes)
    nodes = ", ".join(f"{count} {fate}" for fate, count in counts.items())
    facts.append(f"{plural(len(report.nodes), 'node')}: {nodes}" if nodes else "no nodes")
    if report.budget is not None:
        facts.append(report.budget.sentence)
    facts += report.notes
    if report.skipped:
        facts.append(f"skipped {plural(len(report.skipped), 'bad sample')}")
    return facts
