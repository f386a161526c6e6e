"""What ``ptq ops`` says of a `.tflite` file's float operators; the oracle is the table of the writer."""

from __future__ import annotations

from ptq.core.ops import OPS
from ptq.rewrite.tflite.rows import ROWS


def test_the_operator_table_names_what_a_file_computes_in_float() -> None:
    in_float = {op for op, row in ROWS.items() if op in OPS and row.integer is None}
    assert in_float == {op for op, spec in OPS.items() if spec.litert_in_float}
