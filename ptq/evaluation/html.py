"""A report as one page that needs nothing else: accuracy, budget, suspects, every node and every tensor.

Or a ranking of nodes by what leaving each float would win.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from ptq.evaluation.drop import Drop
from ptq.evaluation.evaluate import Evaluation
from ptq.evaluation.ranking import Ranking
from ptq.evaluation.report import Report

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
    "node", "operator", "what it rounds", "float with", "% of the error", "wins dB, estimated",
    "wins dB, measured", "with those above",
)  # fmt: skip


def render_page(report: Report) -> str:
    """The report as a self-contained HTML document; every text of the model's is escaped."""
    parts = [
        f"<h1>{escape(report.model)}</h1>",
        _render_list(
            [
                f"target {report.target}, format {report.form}, ranges by {report.method}",
                f"{report.float_bytes} → {report.int8_bytes} bytes",
                f"calibrated on {report.calibration_samples} samples",
                *(f"prepared: {change}" for change in report.changes),
                *(f"{name} {version}" for name, version in report.versions.items()),
            ]
        ),
    ]
    if report.suspects:
        parts += ["<h2>Worth a look</h2>", _render_list(map(str, report.suspects))]
    if report.evaluation is not None:
        parts += [
            f"<h2>Accuracy {escape(report.evaluated_on)}</h2>",
            _render_forms(report.evaluation),
        ]
    if report.budget is not None:
        text = f"Budget of {report.budget.points:g} points of {report.budget.drop.metric}: {report.budget}"
        parts.append(f"<p>{escape(text)}</p>")
    nodes = [(n.name, n.op, n.fate, n.why) for n in report.nodes]
    tensors = [
        (t.name, t.kind, f"{t.sqnr_db:.1f}", f"{100 * t.rounding:.0f}",
         f"{100 * (1 - t.rounding):.0f}", f"{100 * t.saturation:.3f}", f"{t.lo:.4g} … {t.hi:.4g}", t.why)
        for t in report.tensors
    ]  # fmt: skip
    left = [row for row in nodes if row[2] == "float"]
    parts += [
        f"<h2>{len(left)} nodes left float</h2>",
        _render_table(("node", "operator", "fate", "why"), left),
        f"<h2>{len(nodes)} nodes</h2>",
        _render_table(("node", "operator", "fate", "why"), nodes),
        f"<h2>{len(tensors)} tensors, worst first</h2>",
        _render_table(_TENSOR_COLUMNS, tensors),
    ]
    return _render_document(report.model, parts)


def render_ranking_page(ranking: Ranking) -> str:
    """A ranking as such a document: every node that rounds, most won first."""
    rows = [
        (cost.node, cost.op, cost.rounds, ", ".join(cost.along), f"{100 * cost.share:.1f}",
         f"{cost.won_db:.1f}", _format_signed(cost.measured_db), _format_signed(cost.together_db))
        for cost in ranking.nodes
    ]  # fmt: skip
    facts = [
        f"target {ranking.target}, on {ranking.samples} samples",
        f"int8: {ranking.sqnr_db:.1f} dB; lost: {_format_drop(ranking.drop)}",
        f"{ranking.sources} places that round, estimated from {ranking.runs} runs of the float model on "
        f"{ranking.estimated_on} samples; {ranking.measurements} quantized models measured",
    ]
    parts = [
        f"<h1>{escape(ranking.model)}</h1>",
        _render_list(facts),
        _render_table(_RANKING_COLUMNS, rows),
    ]
    return _render_document(ranking.model, parts)


def encode_page(text: str) -> bytes:
    """A page as bytes; what of a file's name is no text is a question mark."""
    return text.encode("utf-8", "replace")


def _render_document(title: str, parts: Iterable[str]) -> str:
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>\n'


def _format_signed(decibels: float | None) -> str:
    return "" if decibels is None else f"{decibels:+.1f}"


def _render_forms(evaluation: Evaluation) -> str:
    rows = []
    for name, form in evaluation.forms.items():
        top1 = "" if form.accuracy is None else f"{100 * form.accuracy.top1:.2f}"
        fidelity = form.outputs.get(evaluation.head)
        near = ("", "", "")
        if fidelity is not None:
            agrees = "" if fidelity.agreement is None else f"{100 * fidelity.agreement:.2f}"
            near = agrees, f"{fidelity.sqnr_db:.1f}", f"{fidelity.cosine:.6f}"
        rows.append((name, top1, *near, "" if form.drop is None else _format_drop(form.drop)))
    titles = "form", "top-1 %", "agrees %", "SQNR dB", "cosine", "lost, with its 95 % interval"
    return _render_table(titles, rows)


def _format_drop(drop: Drop) -> str:
    return f"{drop.points:.3g} of {drop.metric} ({drop.lo:.3g} to {drop.hi:.3g})"


def _render_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _render_list(lines: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"
