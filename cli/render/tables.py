"""Evaluations, nodes, inspections and statistics on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import RenderableType
from rich.table import Table

from ptq.core.wording import (
    describe_islands,
    explain_floats,
    format_change,
    format_decibels,
    format_size,
    plural,
)
from ptq.evaluation.form_titles import name_engine, title_forms
from ptq.evaluation.metrics import describe_other_shapes
from ptq.evaluation.presentation.report_wording import NOT_LABELLED, NOTHING_QUANTIZED, count_nodes
from ptq.evaluation.task_wording import describe_forms, describe_task
from ptq.executor.runtimes.runtime import describe_placement

from ..one_line import to_one_line
from ..verbosity import is_quiet, is_verbose
from .drops import render_budget, render_drops
from .provenance import render_provenance
from .screen import (
    format_applied,
    format_heading,
    format_paragraph,
    format_percent,
    format_record,
    format_table,
    format_warnings,
    show,
)

if TYPE_CHECKING:
    from ptq.evaluation.measurements import Evaluation
    from ptq.evaluation.report.inspection import Inspection
    from ptq.evaluation.report.report_data import NodeRow
    from ptq.observers.calibration_file import Calibration

MAX_ENTRIES = 10
MAX_NAMES = 3
_FOLDABLE = "may be folded into"


def render_evaluation(result: Evaluation, model: Path, arithmetic: str) -> None:
    """Print an evaluation.

    Args:
        result: The evaluation.
        model: The evaluated model.
        arithmetic: The arithmetic of the integer executor.
    """
    engine = name_engine(result.runtime, arithmetic)
    show(*format_warnings(result.warnings, result.suspects))
    show(
        format_heading(f"{model}, {engine}, on {plural(result.samples, 'sample')}"),
        *format_applied(result.applied_preprocess, warned=True),
    )
    show(*render_forms(result, title_forms(result, arithmetic)))
    show(*(format_paragraph(to_one_line(line)) for line in describe_placement(result.placement)))
    if result.needs_labels:
        show(format_paragraph(NOT_LABELLED))
    if result.budget is not None:
        show(render_budget(result.budget))


def render_forms(result: Evaluation, titles: Mapping[str, str]) -> Iterator[RenderableType]:
    """Accuracy and fidelity of all forms of a model, their drops, and further outputs."""
    if result.labels is not None:
        yield format_paragraph(str(result.labels))
    yield from (format_paragraph(to_one_line(line)) for line in describe_task(result.task))
    reference = next(iter(result.forms))
    base = result.forms[reference].accuracy
    others = [form for name, form in result.forms.items() if name != reference]
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
        table = format_table("", *columns, left=[""])
        table.columns[0].no_wrap = True
        for name, form in result.forms.items():
            cells = [titles[name]]
            if base is not None and form.accuracy is not None:
                scores = [(form.accuracy.top1, base.top1)]
                if base.top5 is not None and form.accuracy.top5 is not None:
                    scores.append((form.accuracy.top5, base.top5))
                for score, before in scores:
                    change = "" if name == reference else format_change(100 * (score - before))
                    cells += [format_percent(score), change]
            if name != reference:
                fidelity = form.outputs[result.head]
                cells += [format_percent(fidelity.agreement)] if agreement else []
                cells += [format_decibels(fidelity.sqnr_db), f"{fidelity.cosine:.6f}"]
            if len(cells) > 1:  # float alone, without labels, has no figure
                table.add_row(*cells)
        yield table
    yield from render_drops(result, titles)
    yield from (format_paragraph(to_one_line(line)) for line in describe_forms(result, titles))
    yield from (format_paragraph(to_one_line(line)) for line in _list_other_shapes(result, titles))
    if base is not None and base.labelled < result.samples:
        yield format_paragraph(f"top-1 on {base.labelled} labelled samples of {result.samples}")
    further = [name for name in (others[0].outputs if others else ()) if name != result.head]
    if further:
        yield _tabulate_further_outputs(result, further, titles)
        if len(further) > MAX_ENTRIES:
            yield format_paragraph(
                f"{plural(len(further) - MAX_ENTRIES, 'output')} more; --json lists all"
            )


def _list_other_shapes(result: Evaluation, titles: Mapping[str, str]) -> Iterator[str]:
    """The outputs of each form that have no SQNR on some samples."""
    for name, form in result.forms.items():
        for output, fidelity in islice(form.outputs.items(), MAX_ENTRIES):
            if fidelity.other_shapes:
                yield f"{titles[name]}: output {output} has {describe_other_shapes(fidelity)}"


def _tabulate_further_outputs(
    result: Evaluation, outputs: Sequence[str], titles: Mapping[str, str]
) -> Table:
    table = format_table("output", "form", "SQNR dB", "cosine", left=["output", "form"])
    for output in outputs[:MAX_ENTRIES]:
        for name, form in result.forms.items():
            if output in form.outputs:
                fidelity = form.outputs[output]
                table.add_row(
                    output,
                    titles[name],
                    format_decibels(fidelity.sqnr_db),
                    f"{fidelity.cosine:.6f}",
                )
    return table


def render_nodes(rows: Sequence[NodeRow]) -> Iterator[RenderableType]:
    """Number of nodes by result, and the operators that stay in float for each reason."""
    yield format_heading(count_nodes(rows))
    if all(row.fate == "float" for row in rows):
        yield format_paragraph(NOTHING_QUANTIZED, "yellow")
    yield from render_float_reasons((row.op, row.why) for row in rows if row.fate == "float")


def render_float_reasons(nodes: Iterable[tuple[str, str]]) -> Iterator[RenderableType]:
    """The operators that stay in float for each reason, from the operator and the reason of each node."""
    yield from map(format_paragraph, explain_floats(nodes))


def render_inspection(result: Inspection) -> None:
    """Print what will be quantized."""
    purpose = "quantized" if result.quantized else f"for target {result.target}"
    opset = "" if result.opset is None else f"opset {result.opset}, "
    show(format_heading(f"{result.model}, {opset}{purpose}"))
    show(
        *(format_paragraph(change) for change in result.changes),
        *format_record(result.preprocess, "the model"),
        *render_provenance(result.provenance),
    )
    show(*render_nodes(result.nodes))
    show(_group_nodes(result.nodes))
    if not result.quantized:
        observed = plural(result.observed, "tensor")
        show(format_paragraph(f"calibration will observe {observed}"))


def _group_nodes(rows: Sequence[NodeRow]) -> Table:
    """Nodes of one result, operator and reason on one line with their number; with ``-v`` each on its own."""
    columns = ["result", "operator", "node"]
    table = format_table("", *columns, left=columns)
    groups: dict[tuple[str, ...], list[NodeRow]] = {}
    for row in rows:
        own = (row.name,) if is_verbose() else ()
        why = (
            row.why if own or not row.why.startswith(_FOLDABLE) else f"{_FOLDABLE} the node before"
        )
        groups.setdefault((row.fate, row.op, why, *own), []).append(row)
    for (fate, op, why, *_), group in groups.items():
        names = ", ".join(row.name for row in group[:MAX_NAMES])
        rest = len(group) - MAX_NAMES
        names += f" and {plural(rest, 'node')} more (-v lists them)" if rest > 0 else ""
        table.add_row(
            str(len(group)), fate, to_one_line(op), to_one_line(f"{names}: {why}" if why else names)
        )
    return table


def render_islands(islands: Mapping[str, tuple[str, ...]]) -> Iterator[RenderableType]:
    """Float islands: node groups that the integer executor runs in ONNX Runtime."""
    yield from map(format_paragraph, describe_islands(islands))


def _describe_identity(result: Calibration) -> list[str]:
    """What a user must know of shards and processors."""
    from ptq.observers.sample_identity import format_shards

    identity = result.identity
    if identity is None:
        return ["Which samples these are is unknown: older statistics do not record it."]
    notes = []
    if missing := identity.list_missing():
        notes.append(f"Not counted: {format_shards(missing)} of the samples.")
    if len(identity.processors) > 1:
        notes.append(
            f"Made on different kinds of processor: {'; '.join(identity.processors)}. The last bits may differ from "
            "those of one kind."
        )
    return notes


def _describe_stats_alone(result: Calibration) -> str:
    """What ``ptq quantize --stats`` does without data."""
    from ptq.optimization.earlier_run import list_left_out

    if result.kept is not None:
        size = sum(array.nbytes for feed in result.kept.feeds.values() for array in feed.values())
        over = result.kept.passed_over
        note = (
            f" None is kept of {plural(over, 'sample')} whose statistics were made without --keep-samples: "
            "calibrate all shards with it."
        )
        return (
            f"{plural(len(result.kept.feeds), 'sample')} ({format_size(size)}) are kept in the file. ptq quantize "
            f"with --stats alone decides all on them; it measures no accuracy without --eval.{note if over else ''}"
        )
    left_out = list_left_out(rounding="second-order", method="auto")
    return (
        f"Without --data, ptq quantize --stats leaves out {', '.join(left_out)}, equalization and outlier splitting. "
        "It measures no accuracy. Calibrate with --keep-samples to have them."
    )


def render_calibration(result: Calibration, path: Path, next_command: str) -> None:
    """Print what was observed, what needs samples, and the command to run next, on one line of any length."""
    if is_quiet():
        return
    show(
        format_heading(
            f"{plural(len(result.tensors), 'tensor')} observed on "
            f"{plural(result.samples, 'sample')}"
        ),
        *format_record(result.preprocess),
        format_paragraph(_describe_stats_alone(result)),
        *map(format_paragraph, _describe_identity(result)),
    )
    typer.echo(f"  Written: {to_one_line(str(path))}. Next: {to_one_line(next_command)}")
