"""How do an evaluation, an inspection, a verification, statistics and the operators read on a terminal?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table

from .drops import drops
from .one_line import one_line
from .screen import counted, decibels, heading, indented, percent, preprocessing, show, table, tally

if TYPE_CHECKING:
    from ptq.data import Preprocess
    from ptq.evaluation.evaluate import Evaluation
    from ptq.evaluation.inspection import Inspection
    from ptq.evaluation.report import NodeRow
    from ptq.observers.calibration_file import Calibration
    from ptq.verification.lint_rules import Finding

    from .optable import OpRow

SHOWN = 10


def evaluation(
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
    show(heading(f"{model}, {engine}, on {counted(result.samples, 'sample')}"), *_images(way))
    names = {"float": engine if alone else "float"}
    show(*forms(result, {**names, "int8": "int8 in ONNX Runtime", "integers": engine}))
    if alone and result.forms["float"].accuracy is None:
        show(indented("No sample is labelled: give labels, or the float model with --against."))


def forms(result: Evaluation, titles: Mapping[str, str]) -> Iterator[RenderableType]:
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
        made = table("", *columns, left=[""])
        made.columns[0].no_wrap = True
        for name, form in result.forms.items():
            cells = [titles[name]]
            if base is not None and form.accuracy is not None:
                scores = [(form.accuracy.top1, base.top1)]
                if base.top5 is not None and form.accuracy.top5 is not None:
                    scores.append((form.accuracy.top5, base.top5))
                for score, before in scores:
                    change = "" if name == "float" else f"{100 * (score - before):+.2f}"
                    cells += [percent(score), change]
            if name != "float":
                fidelity = form.outputs[result.head]
                cells += [percent(fidelity.agreement)] if agreement else []
                cells += [decibels(fidelity.sqnr_db), f"{fidelity.cosine:.6f}"]
            made.add_row(*cells)
        yield made
    yield from drops(result, titles)
    if base is not None and base.labelled < result.samples:
        yield indented(f"top-1 over the {base.labelled} labelled samples of {result.samples}")
    further = [name for name in (others[0].outputs if others else ()) if name != result.head]
    if further:
        yield _further(result, further, titles)
        if len(further) > SHOWN:
            yield indented(f"and {counted(len(further) - SHOWN, 'output')} more; --json has all")


def _further(result: Evaluation, outputs: Sequence[str], titles: Mapping[str, str]) -> Table:
    made = table("output", "form", "SQNR dB", "cosine", left=["output", "form"])
    for output in outputs[:SHOWN]:
        for name, form in result.forms.items():
            if output in form.outputs:
                fidelity = form.outputs[output]
                made.add_row(
                    output, titles[name], decibels(fidelity.sqnr_db), f"{fidelity.cosine:.6f}"
                )
    return made


def nodes(rows: Sequence[NodeRow]) -> Iterator[RenderableType]:
    """How many nodes met which fate, and for each reason to stay float the operators."""
    fates = {"int8": "int8", "folded": "folded into the node before", "clamp": "clamps on integers"}
    counts = {fate: sum(row.fate == fate for row in rows) for fate in (*fates, "float")}
    said = [f"{counts[fate]} {text}" for fate, text in fates.items() if counts[fate]]
    said.append(f"{counts['float']} float")
    yield heading(f"{counted(len(rows), 'node')}: {', '.join(said)}")
    if not any(counts[fate] for fate in fates):
        yield indented("nothing is quantized: the result computes what the model does", "yellow")
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.fate == "float":
            reasons.setdefault(row.why, []).append(row.op)
    for why, ops in sorted(reasons.items(), key=lambda item: -len(item[1])):
        yield indented(f"float: {tally(ops)}: {why}")


def inspection(result: Inspection) -> None:
    """Print what would be quantized."""
    show(heading(f"{result.model}, opset {result.opset}, for target {result.target}"))
    show(*(indented(f"prepared: {change}") for change in result.changes))
    show(*nodes(result.nodes))
    columns = ["fate", "operator", "node"]
    made = table(*columns, left=columns)
    for row in result.nodes:
        node = f"{row.name}: {row.why}" if row.why else row.name
        made.add_row(row.fate, one_line(row.op), one_line(node))
    show(made, indented(f"Calibration will observe {counted(result.observed, 'tensor')}."))


def islands(found: Mapping[str, tuple[str, ...]]) -> Iterator[RenderableType]:
    """What the integer run leaves to ONNX Runtime's float."""
    if found:
        kinds = tally("+".join(ops) for ops in found.values())
        yield indented(f"computed in float within the integers, agreeing by construction: {kinds}")


def _images(way: Preprocess | None) -> Iterator[RenderableType]:
    """How images were prepared, and what was assumed of them."""
    if way is not None:
        yield indented(preprocessing(way.describe()))
        if way.assumed:
            yield indented(f"{way.assumed}; if it is otherwise, say how", "yellow")


def calibration(result: Calibration, path: Path, way: Preprocess | None) -> None:
    """Print what was observed; ``way`` is how images were prepared, None of arrays."""
    show(
        heading(
            f"{counted(len(result.tensors), 'tensor')} observed on "
            f"{counted(result.samples, 'sample')}"
        ),
        *_images(way),
        indented(f"Written: {path}. Next: ptq quantize MODEL --stats {path}"),
    )


def operators(rows: Sequence[OpRow]) -> None:
    """Print the table of operators."""
    from .optable import grouped

    made = table("operator", "inputs → output · forms · in integers", left=["operator"])
    made.columns[0].no_wrap = True
    made.columns[1].justify = "left"
    for row in rows:
        made.add_row(
            row.op,
            f"{', '.join(row.inputs)} → {grouped(row.outputs)}\n"
            f"ONNX Runtime: {row.onnxruntime} · LiteRT: {row.litert or '–'}\n"
            f"{grouped(row.runs)}",
        )
    show(made)


def findings(found: Sequence[Finding], model: Path) -> None:
    """Print where a model departs from the specification."""
    errors = sum(finding.severity == "error" for finding in found)
    notes = len(found) - errors
    show(heading(f"{model}: {counted(errors, 'error')}, {counted(notes, 'note')}"))
    if not found:
        return
    made = table("rule", "finding", left=["rule", "finding"])
    for finding in found:
        made.add_row(
            f"{finding.severity}\n{finding.rule}",
            f"{finding.node}, {finding.tensor}: {finding.text}\n({finding.clause})",
        )
    show(made)
