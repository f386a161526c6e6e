"""How does the report of a quantization read on a terminal of any width, or in a file?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table

from .drops import budget, search
from .one_line import one_line
from .screen import (
    counted,
    decibels,
    heading,
    indented,
    percent,
    preprocessing,
    show,
    size,
    table,
)
from .tables import forms, islands, nodes

if TYPE_CHECKING:
    from ptq.evaluation.report import Report

WORST = 10
ON_CALIBRATION = "on calibration samples"


def report(result: Report, output: str) -> None:
    """Print a report; ``output`` is where the quantized model is."""
    show(*_title(result, output))
    show(*_provenance(result))
    show(*_accuracy(result))
    if result.suspects:
        show(heading("Worth a look"))
        show(*(indented(str(suspect), "yellow") for suspect in result.suspects))
    if result.search is not None:
        show(*search(result.search, result.nodes))
    show(*nodes(result.nodes), *islands(result.islands), *_portability(result))
    if result.tensors:
        count = min(WORST, len(result.tensors))
        show(heading(f"The worst {count} of {counted(len(result.tensors), 'tensor')}"))
        show(_worst(result))
    show(f"Written: {one_line(output)}. Next: ptq verify {one_line(output)} --data PATH")


def _title(result: Report, output: str) -> Iterator[RenderableType]:
    yield heading(f"{result.model} → {output}")
    sizes = f"{size(result.float_bytes)} → {size(result.int8_bytes)}"
    ratio = f"{result.float_bytes / max(result.int8_bytes, 1):.2f} times smaller"
    speed = ""
    if result.speed is not None:
        speed = f"; {result.speed:.2f} times as fast as float in ONNX Runtime, a sample at a time"
    yield indented(f"{sizes}, {ratio}{speed}")


def _provenance(result: Report) -> Iterator[RenderableType]:
    made = f"target {result.target}, format {result.form}, ranges by {result.method}"
    yield indented(f"{made}, calibrated on {counted(result.calibration_samples, 'sample')}")
    if result.preprocessing:
        yield indented(preprocessing(result.preprocessing))
    for change in result.changes:
        yield indented(f"prepared: {change}")
    if result.skipped:
        name, reason = result.skipped[0]
        text = f"left out {counted(len(result.skipped), 'bad sample')}; the first: {name}: {reason}"
        yield indented(text, "yellow")


def _accuracy(result: Report) -> Iterator[RenderableType]:
    evaluation = result.evaluation
    if evaluation is None:
        yield heading("Accuracy was not measured: there are no samples; give --data or --eval")
        return
    count = counted(evaluation.samples, "sample")
    if result.evaluated_on == ON_CALIBRATION:
        yield heading(f"Accuracy ON CALIBRATION SAMPLES ({count}), output {evaluation.head}")
        yield indented("such figures flatter; give --eval, or at least 50 samples", "yellow")
    else:
        yield heading(f"Accuracy {result.evaluated_on} ({count}), output {evaluation.head}")
    integers = f"integers alone ({result.arithmetic})"
    titles = {"float": "float", "int8": "int8 in ONNX Runtime", "integers": integers}
    yield from forms(evaluation, titles)
    if result.budget is not None:
        yield budget(result.budget)


def _portability(result: Report) -> Iterator[RenderableType]:
    if result.saturable:
        text = (
            f"On x86 without VNNI, {counted(len(result.saturable), 'node')} can give other integers: "
            "use --weights reduced, or u8; ptq verify looks closer."
        )
        yield indented(text, "yellow")


def _worst(result: Report) -> Table:
    made = table(
        "SQNR\ndB", "rounding,\nclipping %", "saturated\n%", "\nrange", "\ntensor (why)",
        left=["\ntensor (why)"],
    )  # fmt: skip
    for row in result.tensors[:WORST]:
        made.add_row(
            decibels(row.sqnr_db),
            f"{percent(row.rounding, 0)}, {percent(1 - row.rounding, 0)}",
            percent(row.saturation, 3),
            f"{row.lo:.3g} … {row.hi:.3g}",
            one_line(f"{row.name} ({row.why.partition(';')[0]})"),
        )
    return made
