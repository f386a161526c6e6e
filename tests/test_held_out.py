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
    "quantized": "1234567",
    "calibrated": 8,
    "evaluated": 8,
    "changed": (3.0, 1.0, 5.0),
    "fast_changed": (3.0, 1.0, 5.0),
    "metric": "agreement with float",
    "lines": None,
    "sqnr_db": 30.0,
    "fast_sqnr_db": 30.0,
    "speed": (2.0, 1.9, 2.1),
    "fast_speed": (2.0, 1.9, 2.1),
    "float_nodes": (0, 10),
    "fast_float_nodes": 0,
    "smaller": 4.0,
    "passes": 10.0,
    "first_line": "agreement with float: −4.00 points (95 % CI −9.00 … −0.50)",
    "said": ("agreement with float", 4.0, 0.5, 9.0),
    "slow": False,
}
ZERO = "agreement with float: 0.00 points (95 % CI −9.00 … 0.00)"
UNSAID = ("agreement with float", 0.0, 0.0, 0.5)
POSSIBLE = "agreement with float: no change in 25 samples (a loss of up to 9.00 points is possible, 95 % CI)"


@pytest.mark.parametrize(
    ("changes", "failure"),
    [
        ({}, ""),
        ({"said": UNSAID}, "first line does not say so"),
        ({"said": UNSAID, "changed": (0.5, 0.0, 2.0)}, ""),
        ({"said": ("energy of the error", 4.0, 0.5, 9.0)}, "first line does not say so"),
        ({"said": UNSAID, "first_line": "error energy 2 % (some loss is likely)"}, ""),
        ({"said": ("agreement with float", 0.0, 0.0, 9.0), "first_line": ZERO}, "does not say so"),
        (
            {"said": ("agreement with float", 0.004, 0.0, 9.0), "first_line": ZERO},
            "does not say so",
        ),
        ({"said": ("agreement with float", 0.0, 0.0, 9.0), "first_line": POSSIBLE}, ""),
        (
            {
                "said": ("agreement with float", 0.0, 0.0, 9.0),
                "first_line": POSSIBLE,
                "changed": (9.1, 8.0, 11.0),
            },
            "does not say so",
        ),
        ({"first_line": "slower than float"}, "first line does not say so"),
        (
            {"first_line": "top-1 accuracy: no significant change (90 % → 86 %, −4.00 points)"},
            "first line does not say so",
        ),
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


def test_a_model_of_an_unknown_commit_is_not_measured(held_out: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.default.onnx"
    path.with_suffix(".json").write_text('{"passes": 1.0}', "utf-8")
    with pytest.raises(SystemExit, match="does not say which commit made the model"):
        held_out["quantize_task"](None, "balanced", path)
    path.with_suffix(".json").write_text('{"passes": 1.0, "commit": "1234567"}', "utf-8")
    assert held_out["quantize_task"](None, "balanced", path)["commit"] == "1234567"


def test_figures_keep_the_commit_that_quantized_and_what_does_not_hold(held_out: Any) -> None:
    figures = held_out["list_figures"](held_out["Row"](**GOOD | {"sqnr_db": 30.12345}))
    assert figures["quantized"] == "1234567"
    assert figures["sqnr_db"] == 30.123
    assert figures["failures"] == []
    slow = held_out["Row"](**GOOD | {"speed": (0.9, 0.88, 0.95), "fast_speed": (0.9, 0.88, 0.95)})
    assert "slower than float" in held_out["list_figures"](slow)["failures"][0]
