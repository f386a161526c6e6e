"""Few evaluation samples are a warning with what they can decide; the intervals of statistics are the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from networks import build_network

import ptq
from ptq.evaluation.checks.sample_count_check import MIN_SAMPLES

MODEL = build_network("y = MatMul(x, w)", {"x": ("n", 5)}, w=np.eye(5, dtype=np.float32))
NOISE = build_network("y = MatMul(x, w)", {"x": ("n", 5)}, w=np.ones((5, 1), np.float32))
ADVICE = "; give 100 or more; smaller changes cannot be separated from chance"


def _samples(count: int) -> dict[str, np.ndarray]:
    rows = np.random.default_rng(0).normal(size=(count, 5)).astype(np.float32)
    return {"x": rows, "labels": rows.argmax(axis=1)}


def _few(warnings: tuple[str, ...]) -> list[str]:
    return [text for text in warnings if text.startswith("evaluation samples: only")]


def test_a6_twelve_samples_are_named_with_what_they_can_decide() -> None:
    twelve = _samples(12)
    assert _few(ptq.evaluate(MODEL, twelve, threads=1).warnings) == [
        f"evaluation samples: only 12 samples: top-1 has 95 % CI 74 … 100 %{ADVICE}"
    ]
    report = ptq.quantize(MODEL, _samples(60), eval_data=twelve, effort="fast", threads=1).report
    assert report.evaluation is not None
    drop = report.evaluation.forms["int8"].drop
    assert drop is not None
    assert _few(report.warnings) == [
        "evaluation samples: only 12 samples: the change has 95 % CI "
        f"{-drop.hi:+.2f} … {-drop.lo:+.2f} points{ADVICE}".replace("-", "−")
    ]
    assert _few(ptq.compare(MODEL, MODEL, twelve, threads=1).warnings)
    error = ptq.compare(NOISE, NOISE, {"x": twelve["x"]}, threads=1)
    assert "error energy 0 % of the output, 95 % CI 0 … 0" in _few(error.warnings)[0]


@pytest.mark.parametrize(("count", "few"), [(MIN_SAMPLES - 1, 1), (MIN_SAMPLES, 0)])
def test_a6_enough_samples_are_no_warning(count: int, few: int) -> None:
    assert len(_few(ptq.evaluate(MODEL, _samples(count), threads=1).warnings)) == few


def test_a6_an_undecided_budget_says_how_many_samples_it_needs_and_nothing_else_does() -> None:
    result = ptq.compare(MODEL, MODEL, _samples(12), max_drop=1, threads=1)
    assert result.budget is not None
    assert result.budget.verdict == "undecided"
    assert _few(result.warnings) == []
