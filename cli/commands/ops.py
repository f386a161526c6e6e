"""Command ``ops``: the operator table."""

from __future__ import annotations

from ..options import shared as o


def ops(json: o.Json = None) -> None:
    """Print the operator table.

    For each operator: quantized inputs and outputs, its operator in ONNX Runtime and LiteRT, and the
    arithmetics that can run it in integers.
    """
    from .. import outputs
    from ..documents.write_document import write_document
    from ..operator_table import list_op_rows
    from ..render.operators import render_operators

    outputs.check_outputs([], [], json)
    rows = list_op_rows()
    if not write_document(json, rows):
        render_operators(rows)
