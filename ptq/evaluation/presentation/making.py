"""Sections: what was done to the graph and what it won; data and preprocessing; versions, digests, the command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptq.core.wording import describe_size_ratio, format_size, plural
from ptq.evaluation.report.report_data import ReportData
from ptq.page.blocks import Facts, Lines
from ptq.page.page import RunFact, Section


def build_changes(report: ReportData) -> Section:
    """What was done to the graph, with the gain of each technique, and notes for some uses."""
    blocks: list[object] = [Lines(report.changes)] if report.changes else []
    if report.notes:
        blocks.append(Lines(tuple(f"note: {note}" for note in report.notes)))
    return Section("changes", "What was done, and what it won", blocks, short="Changes")


def build_data(report: ReportData) -> Section:
    """The samples, and how they became arrays."""
    rows = [("calibration", f"calibrated on {plural(report.calibration_samples, 'sample')}")]
    if report.evaluation is not None:
        rows.append(
            ("evaluation", f"{plural(report.evaluation.samples, 'sample')}, {report.evaluated_on}")
        )
    rows += [("preprocessing", line) for line in report.describe_preprocessing()]
    rows += (
        [("digest of calibration samples", report.calibration_digest)]
        if report.calibration_digest
        else []
    )
    rows += (
        [("digest of evaluation samples", report.evaluation_digest)]
        if report.evaluation_digest
        else []
    )
    blocks: list[object] = [Facts(tuple(rows))]
    if report.skipped:
        head = f"skipped {plural(len(report.skipped), 'bad sample')}; first: "
        texts = [f"{name}: {reason}" for name, reason in report.skipped]
        blocks.append(Lines((head + texts[0], *texts[1:]), "warn"))
    return Section("data", "Data and preprocessing", blocks, short="Data")


def build_provenance_section(report: ReportData, made: Sequence[RunFact]) -> Section:
    """Choices, sizes, versions, and what else is known of the run."""
    return Section("provenance", "How it was made", [Facts((*_list_choices(report), *made))])


def build_run(made: Sequence[RunFact]) -> Section:
    """What is known of the run of another verb."""
    return Section("provenance", "How it was made", [Facts(tuple(made))] if made else [])


def _list_choices(report: ReportData) -> Iterator[RunFact]:
    yield "model", report.model
    yield "choices", f"target {report.target}, format {report.form}, range method {report.method}"
    ratio = describe_size_ratio(report.float_bytes, report.int8_bytes)
    sizes = f"{format_size(report.float_bytes)} → {format_size(report.int8_bytes)}"
    yield "size", f"size {sizes} ({ratio}); {report.float_bytes} → {report.int8_bytes} bytes"
    if report.speed_sentence:
        yield "speed", report.speed_sentence
    yield from report.versions.items()
