"""Verification, conversion and portability on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from ptq.core.wording import plural
from ptq.verification.wording import (
    describe_counts,
    describe_equality,
    describe_largest,
    describe_remedies,
    describe_risks,
    explain_differences,
    explain_largest,
    list_differing,
    rank_risks,
)

from ..one_line import to_one_line
from .screen import (
    format_applied,
    format_heading,
    format_paragraph,
    format_questions,
    format_table,
    show,
)
from .tables import MAX_ENTRIES, render_float_reasons

if TYPE_CHECKING:
    from ptq.verification.portability import NodeRisk, Portability
    from ptq.verification.verify import TensorDifference, Verification

    from ..documents.document_types import ConversionSummary


def render_verification(result: Verification) -> None:
    """Print the number of differing integers, end to end and node by node, and the first difference."""
    differing = list_differing(result)
    show(format_heading(describe_equality(result)))
    show(*format_applied(result.applied_preprocess))
    show(*map(format_paragraph, describe_counts(result)))
    if differing:
        show(_tabulate_differences(differing), *map(format_paragraph, explain_largest(differing)))
        if len(differing) > MAX_ENTRIES:
            show(
                format_paragraph(
                    f"{len(differing) - MAX_ENTRIES} more; --json and --report list all"
                )
            )
    show(*map(format_paragraph, explain_differences(result)))


def _tabulate_differences(differing: Sequence[TensorDifference]) -> Table:
    table = format_table("tensor", "operator", "differ", "at the node", "of", "largest\n(LSB)",
                 left=["tensor", "operator"])  # fmt: skip
    for t in differing[:MAX_ENTRIES]:
        table.add_row(
            to_one_line(t.tensor), t.op,
            *map(str, (t.differing, t.differing_locally, t.elements)), describe_largest(t),
        )  # fmt: skip
    return table


def render_conversion(summary: ConversionSummary, path: Path) -> None:
    """Print the nodes that stay between quantizers, and the path of the model."""
    heading = "verified: both forms compute identical integers"
    if summary.load_failure:
        advice = (
            "Do not use the converted model in ONNX Runtime"
            if summary.given_model_loads
            else "ONNX Runtime does not load the given model either"
        )
        heading = f"not verified: {summary.load_failure.rstrip('.')}. {advice}."
    reasons = [(s.op, s.why.removeprefix("must stay float: ")) for s in summary.float_nodes]
    show(format_heading(heading), *render_float_reasons(reasons))
    show(f"Written: {to_one_line(str(path))}")


def render_portability(result: Portability) -> None:
    """Print where another processor could compute other integers."""
    show(
        format_heading(
            f"Portability to other processors, from the weights and {plural(result.samples, 'sample')}"
        )
    )
    show(*map(format_paragraph, describe_risks(result)))
    if not result.saturable:
        return
    show(
        _tabulate_risks(result.saturable), *map(format_paragraph, explain_largest(result.saturable))
    )
    if len(result.saturable) > MAX_ENTRIES:
        show(
            format_paragraph(
                f"{len(result.saturable) - MAX_ENTRIES} more; --json and --report list all"
            )
        )
    show(*map(format_paragraph, describe_remedies(result)))
    show(*format_questions("differs-on-another-machine"))


def _tabulate_risks(nodes: Sequence[NodeRisk]) -> Table:
    table = format_table("node", "channels", "can\nsaturate", "integers", "\nchanged", "largest\n(LSB)",
                 left=["node"])  # fmt: skip
    for node in rank_risks(nodes)[:MAX_ENTRIES]:
        figures = (node.channels, node.saturable, node.elements, node.saturated)
        table.add_row(
            f"{to_one_line(node.node)} ({node.op})", *map(str, figures), describe_largest(node)
        )
    return table
