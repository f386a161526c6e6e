"""An evaluation as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptq.core.wording import plural
from ptq.evaluation.drop import describe_metric_change
from ptq.evaluation.form_titles import name_engine, title_forms
from ptq.evaluation.measurements import Evaluation
from ptq.evaluation.presentation.accuracy import build_forms
from ptq.evaluation.presentation.changed import build_changed
from ptq.evaluation.presentation.classes import build_classes
from ptq.evaluation.presentation.making import build_run
from ptq.evaluation.presentation.report_wording import NOT_LABELLED
from ptq.evaluation.presentation.result_page import render_result
from ptq.evaluation.presentation.verdict import (
    Tone,
    VerdictFigure,
    shorten_change,
    summarize_similarity,
)
from ptq.executor.runtimes.runtime import describe_placement
from ptq.page.blocks import Facts, Lines
from ptq.page.page import RunFact, Section


def render_evaluation_page(
    result: Evaluation,
    made: Sequence[RunFact] = (),
    *,
    model: str,
    arithmetic: str = "ort",
) -> str:
    """The evaluation as an HTML document.

    Args:
        result: The evaluation.
        made: What else is known of the run: names with values.
        model: What the evaluated model is called.
        arithmetic: The arithmetic of the integer executor.
    """
    engine, titles = name_engine(result.runtime, arithmetic), title_forms(result, arithmetic)
    classes = {} if result.labels is None else result.labels.classes
    names = list(result.forms)
    reference, last = result.forms[names[0]], result.forms[names[-1]]
    blocks = build_forms(result, titles)
    if placed := describe_placement(result.placement):
        blocks.append(Lines(placed))
    if result.budget is not None:
        blocks.append(Lines((result.budget.sentence,)))
    if result.needs_labels:
        blocks.append(Lines((NOT_LABELLED,), "warn"))
    pair = (names[0], names[-1])
    return render_result(
        f"Evaluation of {model.replace(chr(92), '/').rpartition('/')[2]}",
        f"{model}, {engine}, on {plural(result.samples, 'sample')}",
        result,
        _summarize(result),
        (
            Section("accuracy", f"Accuracy, output {result.head}", blocks, short="Accuracy"),
            build_changed(result.changed, result.changed_samples, result.samples, classes=classes, names=pair),
            build_classes(
                (reference.by_class, last.by_class), (reference.confusion, last.confusion), classes, pair
            ),
            _describe_data(result),
            build_run(made),
        ),
    )  # fmt: skip


def _summarize(result: Evaluation) -> Iterator[VerdictFigure]:
    name = list(result.forms)[-1]
    form = result.forms[name]
    if form.accuracy is not None:
        notes = (f"{plural(form.accuracy.labelled, 'labelled sample')}",)
        yield VerdictFigure("top-1 accuracy", f"{100 * form.accuracy.top1:.2f} %", notes)
    if form.drop is not None:
        notes = (describe_metric_change(form.drop)[1],)
        tone: Tone = "bad" if form.drop.lo > 0 else ""
        yield VerdictFigure(f"change of {form.drop.metric}", shorten_change(form.drop), notes, tone)
        yield summarize_similarity(form, result.head)


def _describe_data(result: Evaluation) -> Section:
    applied, blocks = result.applied_preprocess, list[object]()
    rows = [("samples", str(result.samples))]
    if applied is not None:
        rows += applied.list_facts()
    blocks.append(Facts(tuple(rows)))
    if result.skipped:
        blocks.append(
            Lines(tuple(f"skipped: {name}: {why}" for name, why in result.skipped), "warn")
        )
    return Section("data", "Data and preprocessing", blocks, short="Data")
