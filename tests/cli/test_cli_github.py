"""Job summaries and annotations of GitHub Actions; the oracle is the form that GitHub documents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ptq_cli.github import append_summary, escape_message


def test_each_command_appends_its_result_to_the_summary(ptq, model, data):
    made = ["quantize", model, "--data", data, "--rounding", "nearest", "--method", "minmax"]
    summary = ["--summary", "summary.md"]
    Path("summary.md").write_text("# Mine\n")
    assert ptq(*made, "-o", "q.onnx", *summary).code == 0
    assert ptq("evaluate", "q.onnx", "--data", data, "--against", model, *summary).code == 0
    assert ptq("compare", model, "q.onnx", "--data", data, *summary).code == 0
    assert ptq("verify", "q.onnx", "--data", data, *summary).code == 0
    text = Path("summary.md").read_text()
    assert text.startswith("# Mine\n### ")
    heads = [line.partition(" ")[2] for line in text.splitlines() if line.startswith("### ")]
    assert "target ort" in heads[0]
    assert heads[1:] == [
        "Evaluation of q.onnx",
        f"{model} → q.onnx, on 24 samples".replace("_", r"\_"),
        "Verification of q.onnx: passed",
    ]
    assert "| int8 in ONNX Runtime |" in text


def test_the_summary_of_a_failed_gate_is_written(ptq, model, data):
    gate = ["--max-drop", "0.1", "--strict", "--summary", "summary.md"]
    assert ptq("compare", model, model, "--data", data, *gate).code == 3
    assert "accuracy: undecided" in Path("summary.md").read_text()


def test_a_summary_never_goes_into_an_input(ptq, model, data):
    before = model.read_bytes()
    result = ptq("verify", model, "--data", data, "--summary", model)
    assert (result.code, model.read_bytes()) == (2, before)


@pytest.mark.parametrize("option", ["--json", "--report"])
@pytest.mark.parametrize("command", ["quantize", "evaluate", "compare", "verify"])
def test_a_summary_is_no_other_output(ptq, model, data, command, option):
    models = [model, model] if command == "compare" else [model]
    same = ["--summary", "same.md", option, "same.md"]
    result = ptq(command, *models, "--data", data, *same)
    assert (result.code, Path("same.md").is_file() and option == "--report") == (2, False)
    assert "two outputs have the path same.md" in result.err


@pytest.mark.parametrize("before", ["", "# Mine", "# Mine\n"])
def test_a_summary_begins_on_a_line_of_its_own(tmp_path, before):
    path = tmp_path / "s.md"
    path.write_text(before)
    append_summary(path, lambda: "### Heading\n")
    assert path.read_text() == before + "\n" * (before == "# Mine") + "### Heading\n\n"


def test_an_error_is_an_annotation_in_a_job_and_nowhere_else(ptq, monkeypatch):
    assert len(ptq("inspect", "absent.onnx").err.splitlines()) == 1
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    result = ptq("inspect", "absent.onnx", "--json", "-")
    message, annotation = result.err.splitlines()
    assert annotation == f"::error title=ptq::{message.removeprefix('error: ')}"
    assert json.loads(result.out)["error"]["kind"] == "model"


def test_warnings_and_a_failed_gate_are_annotations(ptq, model, data, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    made = ["quantize", model, "--data", data, "--rounding", "nearest", "--json", "-"]
    result = ptq(*made)
    warnings = json.loads(result.out)["warnings"]
    assert warnings
    assert [line for line in result.err.splitlines() if line.startswith("::warning ")] == [
        f"::warning title=ptq::{escape_message(w)}" for w in warnings
    ]
    gate = ptq("compare", model, model, "--data", data, "--max-drop", "0.1", "--strict")
    assert "::error title=ptq::budget of 0.1 points" in gate.err
    assert "95 %25 CI" in gate.err


@pytest.mark.parametrize(
    ("text", "escaped"),
    [("50 %", "50 %25"), ("a\nb\rc", "a%0Ab%0Dc"), ("%0A", "%250A"), ("a::b,c", "a::b,c")],
)
def test_a_message_is_escaped_as_github_s_toolkit_does(text, escaped):
    assert escape_message(text) == escaped
