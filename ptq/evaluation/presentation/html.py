"""The report as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

from ptq.core.plan import Plan
from ptq.evaluation.presentation.accuracy import build_accuracy
from ptq.evaluation.presentation.changed import build_changed
from ptq.evaluation.presentation.channels import build_weights
from ptq.evaluation.presentation.classes import build_classes
from ptq.evaluation.presentation.frontier import build_trade
from ptq.evaluation.presentation.graph import build_graph
from ptq.evaluation.presentation.making import (
    build_changes,
    build_data,
    build_provenance_section,
)
from ptq.evaluation.presentation.nodes import build_nodes
from ptq.evaluation.presentation.questions import list_topics
from ptq.evaluation.presentation.result_page import render_result
from ptq.evaluation.presentation.tensors import build_tensors
from ptq.evaluation.presentation.values import build_histograms, build_values
from ptq.evaluation.presentation.verdict import summarize_verdict
from ptq.evaluation.report.report_data import ReportData
from ptq.observers.stats import TensorStats
from ptq.page.anchors import assign_anchors
from ptq.page.page import RunFact, Section


def render_page(
    report: ReportData,
    made: Sequence[RunFact] = (),
    *,
    plan: Plan | None = None,
    statistics: Mapping[str, TensorStats] | None = None,
) -> str:
    """The report as an HTML document; all texts from the model are escaped.

    Args:
        report: The report.
        made: What else is known of the run: names with values.
        plan: The plan; without it the page has no histograms.
        statistics: Statistics of the calibration by tensor; without them the page has no histograms.
    """
    anchors = assign_anchors("node", [row.name for row in report.nodes])
    histograms = {}
    if plan is not None and statistics is not None:
        histograms = build_histograms(report, plan, statistics)
    return render_result(
        f"{PurePath(report.model).name} → int8",
        f"{report.model}: target {report.target}, format {report.form}",
        report,
        summarize_verdict(report),
        (
            build_accuracy(report),
            *_build_samples(report),
            build_graph(report, anchors, histograms),
            build_tensors(report, anchors),
            *build_trade(report, anchors),
            build_values(report, anchors, histograms),
            *([] if plan is None else [build_weights(report, plan, anchors)]),
            build_nodes(report, anchors),
            build_changes(report),
            build_data(report),
            build_provenance_section(report, made),
        ),
        list_topics(report),
    )


def _build_samples(report: ReportData) -> Iterator[Section]:
    """Changed samples and accuracy by class."""
    evaluation = report.evaluation
    if evaluation is not None:
        classes = {} if evaluation.labels is None else evaluation.labels.classes
        count = evaluation.changed_samples
        yield build_changed(evaluation.changed, count, evaluation.samples, classes=classes)
        forms = evaluation.forms
        before, after = forms["float"], forms["int8"]
        yield build_classes(
            (before.by_class, after.by_class), (before.confusion, after.confusion), classes
        )
