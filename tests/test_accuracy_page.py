"""The first lines of docs/accuracy.md are those that benchmarks/accuracy_summary.py makes of its tables."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
SUMMARY = runpy.run_path(str(ROOT / "benchmarks" / "accuracy_summary.py"))


def test_the_first_lines_of_the_accuracy_page_are_made_from_its_tables():
    assert SUMMARY["replace_summary"](PAGE) == PAGE


def test_another_figure_in_a_table_changes_the_first_lines():
    better = PAGE.replace(
        "| quark_u8_mm_adaround | 0.04 | 99.57 |", "| quark_u8_mm_adaround | 0.04 | 99.91 |"
    )
    assert better != PAGE
    assert "| fmnist_mobilenet | 99.75 | 99.49 | 99.91 |" in SUMMARY["replace_summary"](better)


def test_the_plot_has_every_plotted_task_and_every_tool_with_a_measured_speed():
    plot = (ROOT / "docs" / "accuracy" / "speed.svg").read_text(encoding="utf-8")
    texts = set(re.findall(r">([^<>]+)</text>", plot))
    tools = json.loads((ROOT / "benchmarks" / "accuracy_peers.json").read_text("utf-8"))["tools"]
    shown = {tool.partition(",")[0] for name, tool in tools.items() if name != "onnxsim"}
    assert {*SUMMARY["PLOTTED"], "ptq", "ONNX Runtime quantize_static", *shown} <= texts
