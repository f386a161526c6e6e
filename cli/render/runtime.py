"""A model in another runtime, on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptq.core.wording import format_decibels
from ptq.executor.runtimes.runtime import describe_placement
from ptq.verification.runtime_check import describe_failure, describe_runtime_check

from ..one_line import to_one_line
from .screen import format_heading, format_paragraph, format_table, show

if TYPE_CHECKING:
    from ptq.verification.runtime_check import RuntimeCheck

_WORST = 5


def render_runtime_check(check: RuntimeCheck) -> None:
    """Print whether the runtime computes what the file says, the worst tensors, and where nodes run."""
    show(format_heading(describe_runtime_check(check)))
    if failure := describe_failure(check):
        show(format_paragraph(to_one_line(failure)))
    differing = [(tensor.sqnr_db, tensor) for tensor in check.tensors if tensor.sqnr_db is not None]
    if differing:
        table = format_table("SQNR\ndB", "tensor", "node", left=["tensor", "node"])
        for ratio, row in sorted(differing, key=lambda pair: pair[0])[:_WORST]:
            table.add_row(
                format_decibels(ratio), to_one_line(row.tensor), to_one_line(f"{row.op} {row.node}")
            )
        show(table)
    show(*(format_paragraph(to_one_line(line)) for line in describe_placement(check.placement)))
