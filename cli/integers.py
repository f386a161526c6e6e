"""How do a verification, and the risks on other processors, read on a terminal?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table

from .one_line import one_line
from .screen import counted, format_heading, format_paragraph, format_table, show
from .tables import MAX_ENTRIES, render_islands

if TYPE_CHECKING:
    from ptq.verification.node_status import NodeStatus
    from ptq.verification.portability import NodeRisk, Portability
    from ptq.verification.verify import TensorDifference, Verification


def render_verification(result: Verification) -> None:
    """Print whether the integers agree, end to end and node by node, and where they do not."""
    differing = [t for t in result.tensors if t.differing or t.differing_locally]
    elements = sum(t.elements for t in result.tensors)
    show(
        format_heading(
            f"{counted(len(result.tensors), 'integer tensor')}, {elements} elements on "
            f"{counted(result.samples, 'sample')}: ONNX Runtime and the integers "
            f"({result.arithmetic}) " + ("are equal" if result.equal else "differ")
        )
    )
    ends, local = (
        sum(getattr(t, f) for t in result.tensors) for f in ("differing", "differing_locally")
    )
    show(
        format_paragraph(f"end to end: {ends} differ"),
        format_paragraph(f"node by node, each on ONNX Runtime's own integers: {local} differ"),
    )
    if not result.intact:
        show(
            format_paragraph(
                "ONNX Runtime's outputs changed when its integers were read; compare outputs"
            )
        )
    if result.first is not None:
        show(
            format_paragraph(_describe_first_difference(result.first, len(differing))),
            _differences_table(differing),
        )
        if len(differing) > MAX_ENTRIES:
            show(format_paragraph(f"and {len(differing) - MAX_ENTRIES} more; --json has all"))
    if differing and result.arithmetic == "ort" and not result.exact_products:
        show(
            format_paragraph(
                "This processor has no VNNI: ONNX Runtime saturates sums of two products to 16 bits "
                "here, and differences are expected."
            )
        )
    if not result.optimized:
        show(
            format_paragraph(
                "ONNX Runtime ran without optimizations, so differences are no failure"
            )
        )
    for op, why in result.explanations.items():
        show(format_paragraph(f"{op}: {why}"))
    show(*render_islands(result.islands), *_render_float_nodes(result.floats))


def _describe_first_difference(tensor: TensorDifference, count: int) -> str:
    where = "at that node itself" if tensor.differing_locally else "before it, outside the integers"
    return (
        f"{counted(count, 'tensor')} {'differs' if count == 1 else 'differ'}; "
        f"the first is {tensor.tensor}, made by {tensor.node} ({tensor.op}): "
        f"{tensor.differing} of {tensor.elements} elements, by up to "
        f"{counted(tensor.largest, 'step')}; it arises {where}"
    )


def _differences_table(differing: Sequence[TensorDifference]) -> Table:
    made = format_table("tensor", "operator", "differ", "at the node", "of", "largest, steps",
                 left=["tensor", "operator"])  # fmt: skip
    for t in differing[:MAX_ENTRIES]:
        made.add_row(
            one_line(t.tensor), t.op,
            *map(str, (t.differing, t.differing_locally, t.elements, t.largest)),
        )  # fmt: skip
    return made


def _render_float_nodes(fates: Sequence[NodeStatus]) -> Iterator[RenderableType]:
    """The nodes that are not computed in integers, by reason."""
    reasons: dict[str, list[str]] = {}
    for fate in fates:
        reasons.setdefault(fate.why.removeprefix("must stay float: "), []).append(fate.node)
    for why, names in sorted(reasons.items(), key=lambda item: -len(item[1])):
        more = f" and {len(names) - MAX_ENTRIES} more" if len(names) > MAX_ENTRIES else ""
        yield format_paragraph(f"float: {', '.join(names[:MAX_ENTRIES])}{more}: {why}")


def render_conversion(kept: Sequence[NodeStatus], path: Path) -> None:
    """Print what stays between quantizers, and where the model is."""
    show(format_heading("The same integer function, step for step"), *_render_float_nodes(kept))
    show(f"Written: {one_line(str(path))}")


def render_portability(result: Portability) -> None:
    """Print where the integers would come out otherwise on another processor."""
    show(
        format_heading(
            f"On other processors, from the weights and {counted(result.samples, 'sample')}"
        )
    )
    if not result.nodes:
        show(format_paragraph("No operator sums products with constant weights."))
        return
    met = min(node.bits_left_met for node in result.nodes)
    elements = sum(node.elements for node in result.nodes)
    show(
        format_paragraph(
            f"accumulators: at least {result.bits_left:.1f} bits of int32 are left for any input, "
            f"{met:.1f} on these data"
        ),
        format_paragraph(
            f"exact ties: {result.ties} of {elements} outputs; others may round them otherwise"
        ),
    )
    if not result.saturable:
        show(
            format_paragraph(
                "without VNNI: no pair of weights can saturate, the integers are the same"
            )
        )
        return
    show(format_paragraph(_describe_saturation(result)), _risks_table(result.saturable))
    if len(result.saturable) > MAX_ENTRIES:
        show(format_paragraph(f"and {len(result.saturable) - MAX_ENTRIES} more; --json has all"))
    for remedy in result.remedies:
        show(format_paragraph(f"remedy: {remedy}"))


def _describe_saturation(result: Portability) -> str:
    changed = sum(node.saturated for node in result.saturated)
    reachable = (
        f"without VNNI: pairs of products can saturate in {counted(len(result.saturable), 'node')}"
    )
    if not changed:
        return f"{reachable}; these data change no integer"
    return (
        f"{reachable}; these data change {counted(changed, 'integer')} in "
        f"{counted(len(result.saturated), 'node')}, each given the exact inputs"
    )


def _risks_table(nodes: Sequence[NodeRisk]) -> Table:
    made = format_table("node", "channels", "can\nsaturate", "integers", "\nchanged", "largest,\nsteps",
                 left=["node"])  # fmt: skip
    worst = sorted(nodes, key=lambda node: (-node.saturated, -node.saturable))
    for node in worst[:MAX_ENTRIES]:
        figures = (node.channels, node.saturable, node.elements, node.saturated, node.largest)
        made.add_row(f"{one_line(node.node)} ({node.op})", *map(str, figures))
    return made
