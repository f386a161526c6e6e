"""The tables of docs/frontier.md are made from the results of its benchmark."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "frontier.md").read_text(encoding="utf-8")


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("frontier")


def test_the_tables_are_those_of_the_results(benchmark: Any) -> None:
    results = benchmark.read_results(benchmark.FRONTIER)
    assert benchmark.replace_tables(PAGE, results) == PAGE
    assert "all" in re.findall(r"<!-- frontier: (.+) -->", PAGE)
    assert all(f"| {name} |" in PAGE for name in results)


def test_other_results_make_another_page(benchmark: Any) -> None:
    results = benchmark.read_results(benchmark.FRONTIER)
    name = next(iter(results))
    rows = [[*row[:2], 9.87, *row[3:]] for row in results[name]["rows"]]
    made = benchmark.replace_tables(PAGE, {**results, name: {**results[name], "rows": rows}})
    assert "| 9.87 |" in made


def test_estimates_within_the_limits_are_good(benchmark: Any) -> None:
    rows = [
        [0, False, 2.0, 2.28, 30.0, 31.4],
        [1, False, 2.0, 2.32, 30.0, 28.4],
        [2, True, 2.0, 1.68, 30.0, 31.6],
    ]
    assert benchmark.count_good(rows) == (1, 1)
