"""How do an evaluation, an inspection, a verification, statistics and the operators read on a terminal?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table

from .drops import render_drops
from .one_line import one_line
from .screen import (
    counted,
    format_decibels,
    format_heading,
    format_paragraph,
    format_percent,
    format_preprocessing,
    format_table,
    format_tally,
    show,
)

if TYPE_CHECKING:
    from ptq.data import Preprocess
    from ptq.evaluation.evaluate import Evaluation
    from ptq.evaluation.inspection import Inspection
    from ptq.evaluation.report import NodeRow
    from ptq.observers.calibration_file import Calibration
    from ptq.verification.lint_rules import Finding

    from .optable import OpRow

MAX_ENTRIES = 10


def render_evaluation(
    result: Evaluation, model: Path, arithmetic: str | None, way: Preprocess | None
) -> None:
    """Print an evaluation.

    Args:
        result: The evaluation.
        model: What was evaluated.
        arithmetic: That of the integers; None in ONNX Runtime.
        way: How images were prepared; None of arrays.
    """
    alone = len(result.forms) == 1
    engine = f"integers ({arithmetic})" if arithmetic else "in ONNX Runtime"
    show(
        format_heading(f"{model}, {engine}, on {counted(result.samples, 'sample')}"),
        *_render_preprocessing(way),
    )
    names = {"float": engine if alone else "float"}
    show(*render_forms(result, {**names, "int8": "int8 in ONNX Runtime", "integers": engine}))
    if alone and result.forms["float"].accuracy is None:
        show(
            format_paragraph(
                "No sample is labelled: give labels, or the float model with --against."
            )
        )


def render_forms(result: Evaluation, titles: Mapping[str, str]) -> Iterator[RenderableType]:
    """The forms of a model side by side, and their outputs other than the first."""
    base = result.forms["float"].accuracy
    others = [form for name, form in result.forms.items() if name != "float"]
    labelled = base is not None
    top5 = base is not None and base.top5 is not None
    agreement = any(form.outputs[result.head].agreement is not None for form in others)
    columns = [
        *(["top-1\n%", "change\npoints"] if labelled else []),
        *(["top-5\n%", "change\npoints"] if top5 else []),
        *(["agrees\n%"] if agreement else []),
        *(["SQNR\ndB", "\ncosine"] if others else []),
    ]
    if columns:
        made = format_table("", *columns, left=[""])
        made.columns[0].no_wrap = True
        for name, form in result.forms.items():
            cells = [titles[name]]
            if base is not None and form.accuracy is not None:
                scores = [(form.accuracy.top1, base.top1)]
                if base.top5 is not None and form.accuracy.top5 is not None:
                    scores.append((form.accuracy.top5, base.top5))
                for score, before in scores:
                    change = "" if name == "float" else f"{100 * (score - before):+.2f}"
                    cells += [format_percent(score), change]
            if name != "float":
                fidelity = form.outputs[result.head]
                cells += [format_percent(fidelity.agreement)] if agreement else []
                cells += [format_decibels(fidelity.sqnr_db), f"{fidelity.cosine:.6f}"]
            made.add_row(*cells)
        yield made
    yield from render_drops(result, titles)
    if base is not None and base.labelled < result.samples:
        yield format_paragraph(
            f"top-1 over the {base.labelled} labelled samples of {result.samples}"
        )
    further = [name for name in (others[0].outputs if others else ()) if name != result.head]
    if further:
        yield _further_outputs_table(result, further, titles)
        if len(further) > MAX_ENTRIES:
            yield format_paragraph(
                f"and {counted(len(further) - MAX_ENTRIES, 'output')} more; --json has all"
            )


def _further_outputs_table(
    result: Evaluation, outputs: Sequence[str], titles: Mapping[str, str]
) -> Table:
    made = format_table("output", "form", "SQNR dB", "cosine", left=["output", "form"])
    for output in outputs[:MAX_ENTRIES]:
        for name, form in result.forms.items():
            if output in form.outputs:
                fidelity = form.outputs[output]
                made.add_row(
                    output,
                    titles[name],
                    format_decibels(fidelity.sqnr_db),
                    f"{fidelity.cosine:.6f}",
                )
    return made


def render_nodes(rows: Sequence[NodeRow]) -> Iterator[RenderableType]:
    """How many nodes met which fate, and for each reason to stay float the operators."""
    fates = {"int8": "int8", "folded": "folded into the node before", "clamp": "clamps on integers"}
    counts = {fate: sum(row.fate == fate for row in rows) for fate in (*fates, "float")}
    said = [f"{counts[fate]} {text}" for fate, text in fates.items() if counts[fate]]
    said.append(f"{counts['float']} float")
    yield format_heading(f"{counted(len(rows), 'node')}: {', '.join(said)}")
    if not any(counts[fate] for fate in fates):
        yield format_paragraph(
            "nothing is quantized: the result computes what the model does", "yellow"
        )
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.fate == "float":
            reasons.setdefault(row.why, []).append(row.op)
    for why, ops in sorted(reasons.items(), key=lambda item: -len(item[1])):
        yield format_paragraph(f"float: {format_tally(ops)}: {why}")


def render_inspection(result: Inspection) -> None:
    """Print what would be quantized."""
    show(format_heading(f"{result.model}, opset {result.opset}, for target {result.target}"))
    show(*(format_paragraph(f"prepared: {change}") for change in result.changes))
    show(*render_nodes(result.nodes))
    columns = ["fate", "operator", "node"]
    made = format_table(*columns, left=columns)
    for row in result.nodes:
        node = f"{row.name}: {row.why}" if row.why else row.name
        made.add_row(row.fate, one_line(row.op), one_line(node))
    show(made, format_paragraph(f"Calibration will observe {counted(result.observed, 'tensor')}."))


def render_islands(found: Mapping[str, tuple[str, ...]]) -> Iterator[RenderableType]:
    """What the integer run leaves to ONNX Runtime's float."""
    if found:
        kinds = format_tally("+".join(ops) for ops in found.values())
        yield format_paragraph(
            f"computed in float within the integers, agreeing by construction: {kinds}"
        )


def _render_preprocessing(way: Preprocess | None) -> Iterator[RenderableType]:
    """How images were prepared, and what was assumed of them."""
    if way is not None:
        yield format_paragraph(format_preprocessing(way.describe()))
        if way.assumed:
            yield format_paragraph(f"{way.assumed}; if it is otherwise, say how", "yellow")


def render_calibration(result: Calibration, path: Path, way: Preprocess | None) -> None:
    """Print what was observed; ``way`` is how images were prepared, None of arrays."""
    show(
        format_heading(
            f"{counted(len(result.tensors), 'tensor')} observed on "
            f"{counted(result.samples, 'sample')}"
        ),
        *_render_preprocessing(way),
        format_paragraph(f"Written: {path}. Next: ptq quantize MODEL --stats {path}"),
    )


def render_operators(rows: Sequence[OpRow]) -> None:
    """Print the table of operators."""
    from .optable import merge_equal_cells

    made = format_table("operator", "inputs → output · forms · in integers", left=["operator"])
    made.columns[0].no_wrap = True
    made.columns[1].justify = "left"
    for row in rows:
        made.add_row(
            row.op,
            f"{', '.join(row.inputs)} → {merge_equal_cells(row.outputs)}\n"
            f"ONNX Runtime: {row.onnxruntime} · LiteRT: {row.litert or '–'}\n"
            f"{merge_equal_cells(row.runs)}",
        )
    show(made)


def render_findings(found: Sequence[Finding], model: Path) -> None:
    """Print where a model departs from the specification."""
    errors = sum(finding.severity == "error" for finding in found)
    notes = len(found) - errors
    show(format_heading(f"{model}: {counted(errors, 'error')}, {counted(notes, 'note')}"))
    if not found:
        return
    made = format_table("rule", "finding", left=["rule", "finding"])
    for finding in found:
        made.add_row(
            f"{finding.severity}\n{finding.rule}",
            f"{finding.node}, {finding.tensor}: {finding.text}\n({finding.clause})",
        )
    show(made)
