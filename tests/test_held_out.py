"""benchmarks/held_out.py: what a row must show, and what it may not."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def held_out() -> Any:
    sys.path.insert(0, str(FOLDER))
    try:
        return runpy.run_path(str(FOLDER / "held_out.py"))
    finally:
        sys.path.remove(str(FOLDER))


GOOD: dict[str, Any] = {
    "task": "t",
    "changed": (3.0, 1.0, 5.0),
    "fast_changed": (3.0, 1.0, 5.0),
    "metric": "agreement with float",
    "labelled": "",
    "sqnr_db": 30.0,
    "fast_sqnr_db": 30.0,
    "speed": (2.0, 1.9, 2.1),
    "fast_speed": (2.0, 1.9, 2.1),
    "float_nodes": (0, 10),
    "fast_float_nodes": 0,
    "bytes": (4, 1),
    "passes": 10.0,
    "first_line": "agreement with float: −4.00 points (95 % CI −9.00 … −0.50)",
    "said": ("agreement with float", 4.0, 0.5, 9.0),
    "slow": False,
}
UNSAID = ("agreement with float", 0.0, 0.0, 0.5)


@pytest.mark.parametrize(
    ("changes", "failure"),
    [
        ({}, ""),
        ({"said": UNSAID}, "first line does not say so"),
        ({"said": UNSAID, "changed": (0.5, 0.0, 2.0)}, ""),
        ({"said": ("energy of the error", 4.0, 0.5, 9.0)}, "first line does not say so"),
        ({"said": UNSAID, "first_line": "error energy 2 % (some loss is likely)"}, ""),
        ({"speed": (0.9, 0.88, 0.95), "fast_speed": (0.9, 0.88, 0.95)}, "slower than float"),
        ({"speed": (0.9, 0.8, 0.95), "fast_speed": (0.9, 0.8, 0.95), "slow": True}, ""),
        ({"speed": (1.85, 1.8, 1.9)}, "more than 5 % slower"),
        ({"speed": (1.85, 1.8, 1.9), "fast_changed": (6.0, 4.0, 9.0)}, ""),
        ({"speed": (1.95, 1.9, 2.0)}, ""),
    ],
)
def test_what_does_not_hold_is_named(held_out: Any, changes: dict[str, Any], failure: str) -> None:
    row = held_out["Row"](**GOOD | changes)
    failures = held_out["list_failures"](row)
    assert len(failures) == bool(failure)
    assert failure in "".join(failures)
    assert held_out["format_row"](row).endswith("| no |" if failure else "| yes |")
