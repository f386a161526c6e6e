"""Figures of a report by flat names, for experiment trackers such as MLflow and Weights & Biases."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ptq.evaluation.intervals import NO_INTERVAL
from ptq.evaluation.measurements import FormMetrics
from ptq.evaluation.report.report_data import ReportData


def flatten_metrics(report: ReportData) -> dict[str, float]:
    """Figures of a report by name; the names are stable, and what was not measured is left out.

    Shares are 0 to 1, drops are in points, SQNR is in dB and infinite without error.

    ========================  ==================================================================
    ``calibration_samples``   number of calibration samples
    ``evaluation_samples``    number of samples that accuracy was measured on
    ``float_bytes``           file size of the float model
    ``int8_bytes``            file size of the quantized model
    ``size_ratio``            ``float_bytes / int8_bytes``
    ``speed_ratio``           measured speed of int8 relative to float, where ``speed_source`` says, batch 1
    ``speed_ratio_lo``        lower end of its 95 % interval, if it has one; likewise ``speed_ratio_hi``
    ``larger_than_float``     1 if the quantized model's file is larger than the float model's, else 0
    ``nodes_FATE``            number of nodes, by ``NodeRow.fate``: ``int8``, ``folded``, ``clamp``, ``float``
    ``lowest_tensor_sqnr_db`` lowest SQNR of a tensor
    ``warnings``              number of warnings, as in ``report.warnings``
    ``skipped_samples``       number of bad samples that were left out
    ``max_drop``              the accuracy budget, in points
    ``over_budget``           1 if the budget is exceeded or was not reached, else 0; with a budget only
    ``budget_undecided``      1 if the samples cannot decide the budget, else 0; with a verdict only
    ``min_speedup``           the lowest speed relative to float that was asked for
    ``too_slow``              1 if the whole interval of the speed is below ``min_speedup``, else 0; with that only
    ``FORM_top1``             top-1 accuracy; FORM is ``float``, ``int8`` or ``integers``
    ``FORM_top5``             top-5 accuracy
    ``FORM_agreement``        share of samples whose best class is the float model's
    ``FORM_sqnr_db``          SQNR of the main output
    ``FORM_cosine``           mean cosine between the main output and the float model's
    ``FORM_FIGURE``           each further figure of the task: ``map50_95``, ``character_error_rate``,
                              ``mean_iou_with_float_masks``, …; ``_lo`` and ``_hi`` are its 95 % interval
    ``FORM_drop``             points lost against float; ``_lo`` and ``_hi`` are its 95 % interval
    ========================  ==================================================================
    """
    return {name: float(value) for name, value in _list_figures(report) if value is not None}


def _list_figures(report: ReportData) -> Iterator[tuple[str, float | None]]:
    yield "calibration_samples", report.calibration_samples
    yield "float_bytes", report.float_bytes
    yield "int8_bytes", report.int8_bytes
    yield "size_ratio", report.float_bytes / max(report.int8_bytes, 1)
    yield "speed_ratio", report.speed
    if report.speed_interval is not None and report.speed_interval[0] > 0:
        yield "speed_ratio_lo", report.speed_interval[0]
        yield "speed_ratio_hi", report.speed_interval[1]
    yield "larger_than_float", report.int8_bytes > report.float_bytes
    for fate in ("int8", "folded", "clamp", "float"):
        yield f"nodes_{fate}", sum(row.fate == fate for row in report.nodes)
    yield "lowest_tensor_sqnr_db", min((row.sqnr_db for row in report.tensors), default=None)
    yield "warnings", len(report.warnings)
    yield "skipped_samples", len(report.skipped)
    budget = report.budget or report.search
    if budget is not None:
        yield "max_drop", budget.points
        yield "over_budget", report.over_budget
    if report.budget is not None:
        yield "budget_undecided", report.budget.verdict == "undecided"
    if report.min_speedup is not None:
        yield "min_speedup", report.min_speedup
        yield "too_slow", bool(report.speed_shortfall)
    if report.evaluation is not None:
        yield "evaluation_samples", report.evaluation.samples
        for name, form in report.evaluation.forms.items():
            yield from _list_form_figures(name, form, report.evaluation.head)


def _list_form_figures(
    name: str, form: FormMetrics, head: str
) -> Iterator[tuple[str, float | None]]:
    if form.accuracy is not None:
        yield f"{name}_top1", form.accuracy.top1
        yield f"{name}_top5", form.accuracy.top5
    fidelity = form.outputs.get(head)
    if fidelity is not None:
        yield f"{name}_agreement", fidelity.agreement
        yield f"{name}_sqnr_db", fidelity.sqnr_db
        yield f"{name}_cosine", fidelity.cosine
    for figure in form.figures:
        key = f"{name}_{'_'.join(re.findall('[a-z0-9]+', figure.name.lower()))}"
        yield key, figure.value
        if figure.interval != NO_INTERVAL:
            yield f"{key}_lo", figure.interval[0]
            yield f"{key}_hi", figure.interval[1]
    if form.drop is not None:
        yield f"{name}_drop", form.drop.points
        yield f"{name}_drop_lo", form.drop.lo
        yield f"{name}_drop_hi", form.drop.hi
