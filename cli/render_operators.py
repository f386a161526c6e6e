"""The operator table on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from .optable import OpRow, merge_equal_cells
from .screen import format_table, show


def render_operators(rows: Sequence[OpRow]) -> None:
    """Print the operator table."""
    table = format_table("operator", "inputs → output · operators · in integers", left=["operator"])
    table.columns[0].no_wrap = True
    table.columns[1].justify = "left"
    for row in rows:
        table.add_row(
            row.op,
            f"{', '.join(row.inputs)} → {merge_equal_cells(row.outputs)}\n"
            f"ONNX Runtime: {row.onnxruntime} · LiteRT: {row.litert or '–'}\n"
            f"{merge_equal_cells(row.runs)}",
        )
    show(table)
