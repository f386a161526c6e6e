"""The operator table on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from ..operator_table import OpRow, merge_equal_cells
from .screen import format_table, show


def render_operators(rows: Sequence[OpRow]) -> None:
    """Print the operator table; operators with the same inputs, outputs and arithmetics stand together."""
    first = "operator · in ONNX Runtime · in LiteRT"
    table = format_table(first, "inputs → output · in integers", left=[first])
    table.columns[1].justify = "left"
    alike: dict[str, list[str]] = {}
    for row in rows:
        facts = f"{', '.join(row.inputs)} → {merge_equal_cells(row.outputs)}\n{merge_equal_cells(row.runs)}"
        alike.setdefault(facts, []).append(f"{row.op} · {row.onnxruntime} · {row.litert or '–'}")
    for facts, operators in alike.items():
        table.add_row("\n".join(operators), facts)
    show(table)
