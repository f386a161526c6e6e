"""Budgets on the command line; the oracle is the exit code that is documented, and what a person expects to read."""

from __future__ import annotations

from pathlib import Path

import pytest

NEVER = """
def never(outputs, samples, asked=[]):
    asked.append(1)
    return [float(len(asked) % 2)] * len(samples)  # what is asked second is always worse
"""


@pytest.fixture
def quantized(ptq, model: Path, data: Path) -> str:
    assert ptq("quantize", model, "--data", data, "-o", "q.onnx").code == 0
    return "q.onnx"


def test_a_budget_that_holds_is_said_to(ptq, quantized: str, model: Path, data: Path) -> None:
    done = ptq("evaluate", quantized, "--against", model, "--data", data, "--max-drop", 90)
    assert done.code == 0
    assert "budget of 90 points of top-1 accuracy: held" in " ".join(done.out.split())


def test_a_budget_that_is_exceeded_ends_with_3(
    ptq, quantized: str, model: Path, data: Path
) -> None:
    Path("own_metric.py").write_text(NEVER, encoding="utf-8")
    done = ptq(
        "evaluate", quantized, "--against", model, "--data", data, "--max-drop", 1,
        "--metric", "own_metric:never",
    )  # fmt: skip
    assert done.code == 3
    assert "budget of 1 point of never: exceeded" in " ".join(done.out.split())
    assert done.line.startswith("error: budget of 1 point of never: exceeded")


def test_a_budget_without_a_float_model_is_a_usage_error(ptq, quantized: str, data: Path) -> None:
    done = ptq("evaluate", quantized, "--data", data, "--max-drop", 1)
    assert done.code == 2
    assert "--against" in done.line


def test_quantize_searches_and_says_so(ptq, model: Path, data: Path) -> None:
    done = ptq("quantize", model, "--data", data, "-o", "q.onnx", "--max-drop", 50)
    assert done.code == 0
    assert "no float nodes needed: top-1 " in " ".join(done.out.split())


def test_quantize_ends_with_3_where_no_nodes_left_float_keep_the_budget(
    ptq, model: Path, data: Path
) -> None:
    Path("own_metric.py").write_text(NEVER, encoding="utf-8")
    done = ptq(
        "quantize", model, "--data", data, "-o", "q.onnx", "--max-drop", 1,
        "--metric", "own_metric:never",
    )  # fmt: skip
    assert done.code == 3
    said = " ".join(done.out.split())
    assert "budget of 1 point of never: exceeded" in said
    assert Path("q.onnx").exists()


def test_b9_no_float_node_is_called_unneeded_beside_an_undecided_budget(
    ptq, model: Path, data: Path
) -> None:
    done = ptq("quantize", model, "--data", data, "-o", "q.onnx", "--max-drop", 5)
    said = " ".join(done.out.split())
    assert "budget of 5 points of top-1 accuracy: undecided" in said
    assert "no float nodes needed" not in said
    assert "no float nodes kept, because the change on the search samples is in the budget" in said
