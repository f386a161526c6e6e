"""``ptq tune`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path


def test_a_table_is_written_and_decides_where_it_is_given(ptq, model: Path, data: Path) -> None:
    done = ptq("tune", model, "-o", "t.json", "--threads", 1, "--json", "s.json", "-q")
    assert done.code == 0, done.err
    summary = json.loads(Path("s.json").read_text())
    quantized = ptq(
        "quantize", model, "--data", data, "--effort", "fast", "--cost-table", "t.json", "--save-plan", "p.json",
        "-o", "q.onnx",
    )  # fmt: skip
    assert quantized.code == 0, quantized.err
    costs = json.loads(Path("p.json").read_text())["costs"]
    assert costs == {"table": "tuned", "digest": summary["digest"]}


def test_a_table_that_cannot_be_read_is_a_usage_error_of_one_line(
    ptq, model: Path, data: Path
) -> None:
    done = ptq("quantize", model, "--data", data, "--cost-table", "none.json", "-q")
    assert done.code == 2
    assert "none.json" in done.line


def test_without_a_model_the_time_is_said_in_advance(ptq, model: Path) -> None:
    done = ptq("tune", "--seconds", 0.2, "--threads", 1, "-o", "t.json")
    assert done.code == 0, done.err
    assert "timing common kernels, for at most 0.2 seconds" in done.err
    assert json.loads(Path("t.json").read_text())["kernels"]
