"""How do a verification, and the risks on other processors, read on a terminal?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table

from .one_line import one_line
from .screen import counted, heading, indented, show, table
from .tables import SHOWN, islands

if TYPE_CHECKING:
    from ptq.verification.node_status import Fate
    from ptq.verification.portability import NodeRisk, Portability
    from ptq.verification.verify import TensorDifference, Verification


def verification(result: Verification) -> None:
    """Print whether the integers agree, end to end and node by node, and where they do not."""
    differing = [t for t in result.tensors if t.differing or t.differing_locally]
    elements = sum(t.elements for t in result.tensors)
    show(
        heading(
            f"{counted(len(result.tensors), 'integer tensor')}, {elements} elements on "
            f"{counted(result.samples, 'sample')}: ONNX Runtime and the integers "
            f"({result.arithmetic}) " + ("are equal" if result.equal else "differ")
        )
    )
    ends, local = (
        sum(getattr(t, f) for t in result.tensors) for f in ("differing", "differing_locally")
    )
    show(
        indented(f"end to end: {ends} differ"),
        indented(f"node by node, each on ONNX Runtime's own integers: {local} differ"),
    )
    if not result.intact:
        show(
            indented("ONNX Runtime's outputs changed when its integers were read; compare outputs")
        )
    if result.first is not None:
        show(indented(_first(result.first, len(differing))), _differences(differing))
        if len(differing) > SHOWN:
            show(indented(f"and {len(differing) - SHOWN} more; --json has all"))
    if differing and result.arithmetic == "ort" and not result.exact_products:
        show(
            indented(
                "This processor has no VNNI: ONNX Runtime saturates sums of two products to 16 bits "
                "here, and differences are expected."
            )
        )
    if not result.optimized:
        show(indented("ONNX Runtime ran without optimizations, so differences are no failure"))
    for op, why in result.explanations.items():
        show(indented(f"{op}: {why}"))
    show(*islands(result.islands), *_floats(result.floats))


def _first(tensor: TensorDifference, count: int) -> str:
    where = "at that node itself" if tensor.differing_locally else "before it, outside the integers"
    return (
        f"{counted(count, 'tensor')} {'differs' if count == 1 else 'differ'}; "
        f"the first is {tensor.tensor}, made by {tensor.node} ({tensor.op}): "
        f"{tensor.differing} of {tensor.elements} elements, by up to "
        f"{counted(tensor.largest, 'step')}; it arises {where}"
    )


def _differences(differing: Sequence[TensorDifference]) -> Table:
    made = table("tensor", "operator", "differ", "at the node", "of", "largest, steps",
                 left=["tensor", "operator"])  # fmt: skip
    for t in differing[:SHOWN]:
        made.add_row(
            one_line(t.tensor), t.op,
            *map(str, (t.differing, t.differing_locally, t.elements, t.largest)),
        )  # fmt: skip
    return made


def _floats(fates: Sequence[Fate]) -> Iterator[RenderableType]:
    """The nodes that are not computed in integers, by reason."""
    reasons: dict[str, list[str]] = {}
    for fate in fates:
        reasons.setdefault(fate.why.removeprefix("must stay float: "), []).append(fate.node)
    for why, names in sorted(reasons.items(), key=lambda item: -len(item[1])):
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        yield indented(f"float: {', '.join(names[:SHOWN])}{more}: {why}")


def conversion(kept: Sequence[Fate], path: Path) -> None:
    """Print what stays between quantizers, and where the model is."""
    show(heading("The same integer function, step for step"), *_floats(kept))
    show(f"Written: {one_line(str(path))}")


def portability(result: Portability) -> None:
    """Print where the integers would come out otherwise on another processor."""
    show(heading(f"On other processors, from the weights and {counted(result.samples, 'sample')}"))
    if not result.nodes:
        show(indented("No operator sums products with constant weights."))
        return
    met = min(node.bits_left_met for node in result.nodes)
    elements = sum(node.elements for node in result.nodes)
    show(
        indented(
            f"accumulators: at least {result.bits_left:.1f} bits of int32 are left for any input, "
            f"{met:.1f} on these data"
        ),
        indented(
            f"exact ties: {result.ties} of {elements} outputs; others may round them otherwise"
        ),
    )
    if not result.saturable:
        show(indented("without VNNI: no pair of weights can saturate, the integers are the same"))
        return
    show(indented(_saturation(result)), _risks(result.saturable))
    if len(result.saturable) > SHOWN:
        show(indented(f"and {len(result.saturable) - SHOWN} more; --json has all"))
    for remedy in result.remedies:
        show(indented(f"remedy: {remedy}"))


def _saturation(result: Portability) -> str:
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


def _risks(nodes: Sequence[NodeRisk]) -> Table:
    made = table("node", "channels", "can\nsaturate", "integers", "\nchanged", "largest,\nsteps",
                 left=["node"])  # fmt: skip
    worst = sorted(nodes, key=lambda node: (-node.saturated, -node.saturable))
    for node in worst[:SHOWN]:
        figures = (node.channels, node.saturable, node.elements, node.saturated, node.largest)
        made.add_row(f"{one_line(node.node)} ({node.op})", *map(str, figures))
    return made
