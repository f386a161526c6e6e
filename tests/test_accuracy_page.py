"""The tables of docs/accuracy.md are made from the results of the benchmark, and its first lines from the tables."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
TABLES = runpy.run_path(str(ROOT / "benchmarks" / "accuracy_tables.py"))
SUMMARY = runpy.run_path(str(ROOT / "benchmarks" / "accuracy_summary.py"))


def test_the_tables_are_those_of_the_results_and_each_result_has_its_table():
    results = TABLES["read_results"]()
    assert TABLES["replace_tables"](PAGE, results) == PAGE
    marked = re.findall(r"<!-- table: (.+) -->", PAGE)
    assert sorted(marked) == sorted(results)
    assert len(results) >= 13


def test_no_table_that_the_benchmark_makes_stands_outside_the_marks():
    rest = re.sub(r"<!-- table: .*?<!-- end of table -->", "", PAGE, flags=re.DOTALL)
    assert "× float pass |" in PAGE
    assert "× float pass |" not in rest


def test_another_figure_of_a_result_changes_its_table(tmp_path: Path):
    results = json.loads(json.dumps(TABLES["read_results"]()))
    results["ocr_cls"]["rows"][0]["sqnr"] = [40.5, 39.0, 41.25]
    assert "| 40.50 (39.0 … 41.2) |" in TABLES["replace_tables"](PAGE, results)
    written = tmp_path / "results.json"
    for name, result in results.items():
        given = {key: value for key, value in result.items() if key != "measured"}
        TABLES["write_result"](written, name, given, result["measured"])
    assert json.loads(written.read_text(encoding="utf-8"))["tasks"] == results


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
