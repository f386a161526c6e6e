"""Report or sensitivity ranking as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from ptq.core.wording import describe_size_ratio, format_change, plural
from ptq.data.labelling import Labelling
from ptq.evaluation.drop import describe_drop
from ptq.evaluation.html_elements import render_list, render_table
from ptq.evaluation.measurements import Evaluation
from ptq.evaluation.ranking import Ranking
from ptq.evaluation.report import ReportData
from ptq.evaluation.task_wording import describe_forms, describe_task

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem}"
    "table{border-collapse:collapse;margin:1rem 0}"
    "th,td{text-align:left;padding:.2rem .8rem .2rem 0;border-bottom:1px solid #ccc;vertical-align:top;"
    "overflow-wrap:anywhere}"
)
_TENSOR_COLUMNS = (
    "tensor",
    "kind",
    "SQNR dB",
    "rounding %",
    "clipping %",
    "saturated %",
    "range",
    "why",
)
_RANKING_COLUMNS = (
    "node", "operator", "quantized tensor", "float together with", "% of the error",
    "SQNR gain dB, estimated", "SQNR gain dB, measured", "gain together with rows above",
)  # fmt: skip


def render_page(report: ReportData) -> str:
    """The report as an HTML document; all texts from the model are escaped."""
    sections = [
        f"<h1>{escape(report.model)}</h1>",
        *_render_warnings(report.warnings),
        render_list(
            [
                f"target {report.target}, format {report.form}, range method {report.method}",
                f"size {report.float_bytes} → {report.int8_bytes} bytes, "
                f"{describe_size_ratio(report.float_bytes, report.int8_bytes)}",
                f"calibrated on {plural(report.calibration_samples, 'sample')}",
                *report.describe_preprocessing(),
                *report.changes,
                *report.notes,
                *(f"{name} {version}" for name, version in report.versions.items()),
            ]
        ),
    ]
    if report.evaluation is not None:
        sections += [
            f"<h2>Accuracy {escape(report.evaluated_on)}</h2>",
            *_render_labels(report.evaluation.labels),
            render_list(describe_task(report.evaluation.task)),
            _render_forms(report.evaluation),
            render_list([*describe_forms(report.evaluation, {})]),
        ]
    if report.budget is not None:
        sections.append(f"<p>{escape(report.budget.sentence)}</p>")
    nodes = [(n.name, n.op, n.fate, n.why) for n in report.nodes]
    tensors = [
        (t.name, t.kind, f"{t.sqnr_db:.1f}", f"{100 * t.rounding:.0f}",
         f"{100 * (1 - t.rounding):.0f}", f"{100 * t.saturation:.3f}", f"{t.lo:.4g} … {t.hi:.4g}", t.why)
        for t in report.tensors
    ]  # fmt: skip
    float_nodes = [row for row in nodes if row[2] == "float"]
    sections += [
        f"<h2>{plural(len(float_nodes), 'float node')}</h2>",
        render_table(("node", "operator", "result", "why"), float_nodes),
        f"<h2>{plural(len(nodes), 'node')}</h2>",
        render_table(("node", "operator", "result", "why"), nodes),
        f"<h2>{plural(len(tensors), 'tensor')}, lowest SQNR first</h2>",
        render_table(_TENSOR_COLUMNS, tensors),
    ]
    return _render_document(report.model, sections)


def render_ranking_page(ranking: Ranking) -> str:
    """The ranking as an HTML document: every node with quantizers, largest gain first."""
    rows = [
        (cost.node, cost.op, cost.rounds, ", ".join(cost.along), f"{100 * cost.share:.1f}",
         f"{cost.won_db:.1f}", _format_signed(cost.measured_db), _format_signed(cost.together_db))
        for cost in ranking.nodes
    ]  # fmt: skip
    facts = [
        f"target {ranking.target}, on {plural(ranking.samples, 'sample')}",
        f"int8: SQNR {ranking.sqnr_db:.1f} dB; {describe_drop(ranking.drop)}",
        f"estimated from {plural(ranking.runs, 'float run')} on {plural(ranking.estimated_on, 'sample')} for "
        f"{plural(ranking.sources, 'quantizer')}; measured: {plural(ranking.measurements, 'quantized model')}",
    ]
    sections = [
        f"<h1>{escape(ranking.model)}</h1>",
        *_render_warnings(ranking.warnings),
        render_list(facts),
        *_render_labels(ranking.labels),
        render_list(describe_task(ranking.task)),
        render_table(_RANKING_COLUMNS, rows),
    ]
    return _render_document(ranking.model, sections)


def encode_page(text: str) -> bytes:
    """Encode a page; bytes of a file name that are not text become question marks."""
    return text.encode("utf-8", "replace")


def _render_document(title: str, sections: Iterable[str]) -> str:
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{"".join(sections)}</body></html>\n'


def _format_signed(decibels: float | None) -> str:
    return "" if decibels is None else format_change(decibels, 1)


def _render_forms(evaluation: Evaluation) -> str:
    rows = []
    for name, form in evaluation.forms.items():
        top1 = "" if form.accuracy is None else f"{100 * form.accuracy.top1:.2f}"
        fidelity = form.outputs.get(evaluation.head)
        similarity = ("", "", "")
        if fidelity is not None:
            agrees = "" if fidelity.agreement is None else f"{100 * fidelity.agreement:.2f}"
            similarity = agrees, f"{fidelity.sqnr_db:.1f}", f"{fidelity.cosine:.6f}"
        rows.append(
            (name, top1, *similarity, "" if form.drop is None else describe_drop(form.drop))
        )
    titles = "form", "top-1 %", "agrees %", "SQNR dB", "cosine", "change (95 % CI)"
    return render_table(titles, rows)


def _render_warnings(warnings: Sequence[str]) -> list[str]:
    return ["<h2>Warnings</h2>", render_list(warnings)] if warnings else []


def _render_labels(labels: Labelling | None) -> list[str]:
    return [] if labels is None else [f"<p>{escape(str(labels))}</p>"]
