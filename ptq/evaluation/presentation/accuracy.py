"""Section: every form of a model on the same samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ptq.core.wording import format_change, format_decibels, plural
from ptq.data.splits import ON_CALIBRATION
from ptq.evaluation.drop import describe_drop
from ptq.evaluation.form_titles import title_forms
from ptq.evaluation.measurements import Evaluation, FormMetrics
from ptq.evaluation.metrics import Accuracy
from ptq.evaluation.presentation.report_wording import (
    NOT_MEASURED,
    SEARCH_TITLE,
    TOO_OPTIMISTIC,
    describe_search,
)
from ptq.evaluation.presentation.verdict import describe_sqnr
from ptq.evaluation.report.report_data import ReportData
from ptq.evaluation.task_wording import describe_forms, describe_task
from ptq.page.blocks import Cell, Column, Lines, Table, Tone
from ptq.page.page import Section

_BUDGET_TONES: Mapping[str, Tone] = {"held": "good", "exceeded": "bad"}


def build_accuracy(report: ReportData) -> Section:
    """Accuracy of a quantized model; a sentence if it was not measured."""
    evaluation = report.evaluation
    if evaluation is None:
        return Section("accuracy", "Accuracy", [Lines((NOT_MEASURED,), "warn")])
    titles = title_forms(evaluation, report.arithmetic)
    shown = "" if report.shared_samples else f" ({plural(evaluation.samples, 'sample')})"
    blocks: list[object] = []
    if report.evaluated_on == ON_CALIBRATION:
        blocks.append(Lines((TOO_OPTIMISTIC,), "warn"))
    blocks += build_forms(evaluation, titles)
    if report.budget is not None and report.budget.sentence not in report.warnings:
        tone = _BUDGET_TONES.get(report.budget.verdict, "warn")
        blocks.append(Lines((report.budget.sentence,), tone))
    if report.search is not None:
        lines = describe_search(report.search, report.nodes, report.budget)
        blocks.append(Lines((SEARCH_TITLE, *lines)))
    title = f"Accuracy {report.evaluated_on}{shown}, output {evaluation.head}"
    if report.evaluated_on == ON_CALIBRATION:
        title = title.replace(ON_CALIBRATION, ON_CALIBRATION.upper())
    return Section("accuracy", title, blocks, short="Accuracy")


def build_forms(evaluation: Evaluation, titles: Mapping[str, str]) -> list[object]:
    """The table of forms, their drops and figures, and all further outputs.

    Args:
        evaluation: The measurements.
        titles: What each form is called.
    """
    lines = [] if evaluation.labels is None else [str(evaluation.labels)]
    lines += describe_task(evaluation.task)
    reference = next(iter(evaluation.forms))
    base = evaluation.forms[reference].accuracy
    rows = [
        (Cell(titles[name]), *_format_cells(form, base, evaluation.head, name == reference))
        for name, form in evaluation.forms.items()
    ]
    # float alone may have none
    figures = [row for row in rows if any(cell.text for cell in row[1:])]
    table = Table("forms", *_drop_empty_columns(_format_columns(), figures or rows))
    drops: dict[str, list[str]] = {}
    for name, form in evaluation.forms.items():
        if form.drop is not None:
            drops.setdefault(describe_drop(form.drop), []).append(titles[name])
    sentences = [f"{' and '.join(names)}: {text}" for text, names in drops.items()]
    sentences += describe_forms(evaluation, titles)
    if base is not None and base.labelled < evaluation.samples:
        sentences.append(f"top-1 on {base.labelled} labelled samples of {evaluation.samples}")
    blocks: list[object] = [table, Lines(tuple(lines)), Lines(tuple(sentences))]
    further = tuple(_format_further_rows(evaluation, titles))
    if further:
        columns = (Column("output"), Column("form"), *_FIDELITY)
        blocks.append(Table("outputs", columns, further))
    return blocks


def _drop_empty_columns(
    columns: Sequence[Column], rows: Sequence[tuple[Cell, ...]]
) -> tuple[tuple[Column, ...], tuple[tuple[Cell, ...], ...]]:
    kept = [k for k in range(len(columns)) if any(row[k].text for row in rows)]
    return tuple(columns[k] for k in kept), tuple(tuple(row[k] for k in kept) for row in rows)


_FIDELITY = (Column("SQNR dB", True), Column("cosine", True), Column("which means"))


def _format_columns() -> tuple[Column, ...]:
    return (
        Column("form"),
        *(Column(t, True) for t in ("top-1 %", "change points", "top-5 %", "change points")),
        Column("agrees %", True),
        *_FIDELITY,
    )


def _format_cells(
    form: FormMetrics, base: Accuracy | None, head: str, is_reference: bool
) -> Iterator[Cell]:
    scores: list[tuple[float | None, float | None]] = [(None, None)] * 2
    if base is not None and form.accuracy is not None:
        scores = [(form.accuracy.top1, base.top1), (form.accuracy.top5, base.top5)]
    for score, before in scores:
        yield Cell("" if score is None else f"{100 * score:.2f}", score)
        if score is None or before is None or is_reference:
            yield Cell("")
        else:
            yield Cell(format_change(100 * (score - before)))
    fidelity = form.outputs.get(head)
    if fidelity is None:
        yield from (Cell("") for _ in range(4))
        return
    agrees = fidelity.agreement
    yield Cell("" if agrees is None else f"{100 * agrees:.2f}", agrees)
    yield Cell(format_decibels(fidelity.sqnr_db), fidelity.sqnr_db)
    yield Cell(f"{fidelity.cosine:.6f}")
    yield Cell(describe_sqnr(fidelity))


def _format_further_rows(
    evaluation: Evaluation, titles: Mapping[str, str]
) -> Iterator[tuple[Cell, ...]]:
    for name, form in evaluation.forms.items():
        for output, fidelity in form.outputs.items():
            if output != evaluation.head:
                yield (
                    Cell(output),
                    Cell(titles[name]),
                    Cell(format_decibels(fidelity.sqnr_db), fidelity.sqnr_db),
                    Cell(f"{fidelity.cosine:.6f}"),
                    Cell(describe_sqnr(fidelity)),
                )
