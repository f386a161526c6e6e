"""Verification, conversion and portability on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table

from ptq.core.wording import plural

from .one_line import one_line
from .render_tables import MAX_ENTRIES, render_float_reasons, render_islands
from .screen import format_applied, format_heading, format_paragraph, format_table, show

if TYPE_CHECKING:
    from ptq.verification.node_status import NodeStatus
    from ptq.verification.portability import NodeRisk, Portability
    from ptq.verification.verify import TensorDifference, Verification


_LSB_NOTE = (
    "largest: the largest difference of an integer, in LSB; one LSB is one step of the scale"
)


def render_verification(result: Verification) -> None:
    """Print the number of differing integers, end to end and node by node, and the first difference."""
    differing = [t for t in result.tensors if t.differing or t.differing_locally]
    elements = sum(t.elements for t in result.tensors)
    show(
        format_heading(
            f"{plural(len(result.tensors), 'integer tensor')}, {elements} elements on "
            f"{plural(result.samples, 'sample')}: ONNX Runtime {result.ort_version} and the integer "
            f"executor ({result.arithmetic_version}) " + ("are equal" if result.equal else "differ")
        )
    )
    show(*format_applied(result.applied_preprocess))
    end_to_end = sum(t.differing for t in result.tensors)
    local = sum(t.differing_locally for t in result.tensors)
    show(
        format_paragraph(f"end to end: {end_to_end} differ"),
        format_paragraph(f"node by node, each on ONNX Runtime's own integers: {local} differ"),
    )
    if not result.intact:
        show(
            format_paragraph(
                "reading the integers changed ONNX Runtime's outputs; compare the model outputs too"
            )
        )
    if result.first is not None:
        show(
            format_paragraph(_describe_first_difference(result.first, len(differing))),
            _differences_table(differing),
            format_paragraph(_LSB_NOTE),
        )
        if len(differing) > MAX_ENTRIES:
            show(format_paragraph(f"{len(differing) - MAX_ENTRIES} more; --json lists all"))
    if differing and result.arithmetic_version.startswith("ort@") and not result.exact_products:
        show(
            format_paragraph(
                "differences are expected: without VNNI, this processor makes ONNX Runtime saturate sums "
                "of two products to 16 bits"
            )
        )
    if not result.optimized:
        show(
            format_paragraph(
                "ONNX Runtime ran without optimizations: differences do not fail the verification"
            )
        )
    for op, why in result.explanations.items():
        show(format_paragraph(f"{op}: {why}"))
    show(*render_islands(result.islands), *_render_float_nodes(result.floats))


def _describe_first_difference(tensor: TensorDifference, count: int) -> str:
    origin = "in this node" if tensor.differing_locally else "upstream, in float code"
    return (
        f"{plural(count, 'tensor')} {'differs' if count == 1 else 'differ'}; "
        f"first: {tensor.tensor}, output of {tensor.node} ({tensor.op}): "
        f"{tensor.differing} of {tensor.elements} elements differ, by up to {tensor.largest} LSB; "
        f"the mismatch starts {origin}"
    )


def _differences_table(differing: Sequence[TensorDifference]) -> Table:
    table = format_table("tensor", "operator", "differ", "at the node", "of", "largest\n(LSB)",
                 left=["tensor", "operator"])  # fmt: skip
    for t in differing[:MAX_ENTRIES]:
        table.add_row(
            one_line(t.tensor), t.op,
            *map(str, (t.differing, t.differing_locally, t.elements, t.largest)),
        )  # fmt: skip
    return table


def _render_float_nodes(statuses: Sequence[NodeStatus]) -> Iterator[RenderableType]:
    """The operators that are not computed in integers for each reason."""
    return render_float_reasons((s.op, s.why.removeprefix("must stay float: ")) for s in statuses)


def render_conversion(float_nodes: Sequence[NodeStatus], path: Path) -> None:
    """Print the nodes that stay between quantizers, and the path of the model."""
    show(
        format_heading("verified: both forms compute identical integers"),
        *_render_float_nodes(float_nodes),
    )
    show(f"Written: {one_line(str(path))}")


def render_portability(result: Portability) -> None:
    """Print where another processor could compute other integers."""
    show(
        format_heading(
            f"Portability to other processors, from the weights and {plural(result.samples, 'sample')}"
        )
    )
    if not result.nodes:
        show(format_paragraph("no operator multiplies constant weights"))
        return
    observed = min(node.bits_left_met for node in result.nodes)
    elements = sum(node.elements for node in result.nodes)
    show(
        format_paragraph(
            f"accumulators: at least {result.bits_left:.1f} bits of int32 are unused for any input, "
            f"{observed:.1f} bits on these samples"
        ),
        format_paragraph(
            f"exact ties: {result.ties} of {elements} outputs; other runtimes may round them differently"
        ),
    )
    if not result.saturable:
        show(
            format_paragraph(
                "without VNNI: no pair of weights can saturate; the integers are the same"
            )
        )
        return
    show(
        format_paragraph(_describe_saturation(result)),
        _risks_table(result.saturable),
        format_paragraph(_LSB_NOTE),
    )
    if len(result.saturable) > MAX_ENTRIES:
        show(format_paragraph(f"{len(result.saturable) - MAX_ENTRIES} more; --json lists all"))
    for remedy in result.remedies:
        show(format_paragraph(f"remedy: {remedy}"))
    show(format_paragraph("options of ptq quantize: --weights reduced, --weights u8"))


def _describe_saturation(result: Portability) -> str:
    changed = sum(node.saturated for node in result.saturated)
    reachable = f"without VNNI: {plural(len(result.saturable), 'node')} can saturate"
    if not changed:
        return f"{reachable}; no integer changes on these samples"
    return (
        f"{reachable}; {plural(changed, 'integer')} in {plural(len(result.saturated), 'node')} "
        f"would change on these samples (each node given exact inputs)"
    )


def _risks_table(nodes: Sequence[NodeRisk]) -> Table:
    table = format_table("node", "channels", "can\nsaturate", "integers", "\nchanged", "largest\n(LSB)",
                 left=["node"])  # fmt: skip
    worst = sorted(nodes, key=lambda node: (-node.saturated, -node.saturable))
    for node in worst[:MAX_ENTRIES]:
        figures = (node.channels, node.saturable, node.elements, node.saturated, node.largest)
        table.add_row(f"{one_line(node.node)} ({node.op})", *map(str, figures))
    return table
