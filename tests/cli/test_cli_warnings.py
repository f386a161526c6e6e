"""Warnings: what a reader must know stands above every figure, on the terminal, in the page and in JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from networks import build_network, gaussian_array
from ptq_cli.render.report import render_report
from reports import REPORT

import ptq as package
from ptq.evaluation.diagnosis import Diagnosis
from ptq.evaluation.presentation.html import render_page

BUDGET, USAGE = 3, 2
SERIOUS = Diagnosis(
    "the float model gets 6 of 64 samples right", "preprocessing", "use scale 1", serious=True
)


@pytest.fixture
def small(model, data):
    """A network of one tiny product: quantizers are larger and slower than what they save."""
    onnx.save(
        build_network("y = MatMul(x, w)", {"x": ("N", 4)}, ["y"], w=gaussian_array(4, 3)),
        "small.onnx",
    )
    np.savez("rows.npz", x=np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32))
    return "small.onnx"


def test_s10_a_result_larger_and_slower_than_float_is_the_first_that_is_read(ptq, small):
    done = ptq("quantize", small, "--data", "rows.npz", "--json", "r.json", "--report", "r.html")
    assert done.code == 0
    first, second = done.out.splitlines()[:2]
    assert first == "Warnings"
    assert second.startswith("  the quantized model: ")
    assert "times larger" in " ".join(done.out.split())
    ratio = done.out.partition("size ")[2].partition("times")[0].partition("(")[2]
    assert float(ratio) > 1
    report = json.loads(Path("r.json").read_text(encoding="utf-8"))
    assert [*report].index("warnings") < [*report].index("evaluation")
    assert report["warnings"][0].startswith("the quantized model: ")
    assert str(report["suspects"][0]["what"]) in report["warnings"][0]
    page = Path("r.html").read_text(encoding="utf-8")
    assert page.index("times larger") < page.index("calibrated on")


def test_a_verdict_about_preprocessing_is_the_first_line_of_the_report_and_of_the_page(capsys):
    report = replace(REPORT, suspects=(SERIOUS, Diagnosis("a", "b", "c")), saturable=("n",))
    render_report(report, "out.onnx", "ptq inspect out.onnx")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Warnings"
    assert lines[1].startswith("  preprocessing: the float model gets 6 of 64 samples right")
    assert report.warnings[1:2] == ("b: a; c",)
    assert len(report.warnings) == 2
    page = render_page(report)
    assert page.index("6 of 64") < page.index("calibrated on")


def test_saturation_without_vnni_is_a_note_that_buries_no_warning(capsys):
    report = replace(REPORT, saturable=("n",))
    assert report.warnings == ()
    render_report(report, "out.onnx", "ptq inspect out.onnx")
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.startswith("net.onnx → out.onnx")
    note = "x86 processors without VNNI: 1 node may saturate; use weights reduced or u8"
    for text in (printed, render_page(report), report.to_markdown()):
        assert text.count(note) == 1
    assert json.loads(report.to_json())["saturable"] == ["n"]


def test_a_report_without_warnings_begins_with_its_title(capsys):
    render_report(REPORT, "out.onnx", "ptq inspect out.onnx")
    assert capsys.readouterr().out.startswith("net.onnx → out.onnx")


@pytest.mark.parametrize("verb", ["quantize", "evaluate"])
def test_strict_without_a_budget_is_a_usage_error(ptq, model, data, verb):
    result = ptq(verb, model, "--data", data, "--strict")
    assert result.code == USAGE
    assert result.line == "error: --strict needs an accuracy budget; give --max-drop"


def test_s13_strict_ends_with_3_where_the_samples_cannot_decide_and_says_how_many_can(
    ptq, model, data
):
    given = ("quantize", model, "--data", data, "--max-drop", 0.5)
    loose = ptq(*given)
    assert loose.code == 0
    sentence = json.loads(ptq(*given, "--json", "-").out)["budget"]["sentence"]
    assert " ".join(loose.out.split()).count(sentence) == 2  # the warning, and below the figures
    strict = ptq(*given, "--strict", "-o", "strict.onnx")
    assert strict.code == BUDGET
    assert strict.line == f"error: {sentence}"
    assert sentence.startswith("budget of 0.5 points of top-1 accuracy: undecided (top-1 ")
    assert sentence.endswith(" evaluation samples would decide it")
    assert "met" not in strict.out.split()
    assert Path("strict.onnx").read_bytes() == Path("model.int8.onnx").read_bytes()
    against = ("evaluate", "strict.onnx", "--against", model, "--data", data, "--max-drop", 0.5)
    assert ptq(*against).code == 0
    assert ptq(*against, "--strict").code == BUDGET


def test_strict_leaves_the_whole_json_document(ptq, model, data):
    done = ptq("quantize", model, "--data", data, "--max-drop", 0.5, "--strict", "--json", "-")
    assert (done.code, json.loads(done.out)["budget"]["verdict"]) == (BUDGET, "undecided")
    assert json.loads(done.out)["budget"]["sentence"] in json.loads(done.out)["warnings"]


def test_strict_accepts_a_budget_that_is_shown_to_hold(ptq, model, data):
    given = ("quantize", model, "--data", data, "--max-drop", 90, "--strict")
    assert ptq(*given).code == 0


def test_strict_in_python_raises_with_the_result(model, data):
    with pytest.raises(
        package.BudgetError, match=r"undecided \(.* on 24 evaluation samples"
    ) as caught:
        package.quantize(model, data, max_drop=0.5, strict=True, threads=1)
    assert caught.value.exit_code == BUDGET
    assert caught.value.result.report.budget.verdict == "undecided"
    with pytest.raises(
        package.UsageError, match="`strict` needs an accuracy budget; give `max_drop`"
    ):
        package.quantize(model, data, strict=True)


def test_another_float_model_of_the_same_shapes_is_doubted(ptq, model, data):
    assert ptq("quantize", model, "--data", data, "-o", "q.onnx").code == 0
    other = onnx.load(model)
    for tensor in other.graph.initializer:
        values = np.random.default_rng(99).normal(size=tuple(tensor.dims)).astype(np.float32)
        tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    onnx.save(other, "other.onnx")
    given = ("evaluate", "q.onnx", "--data", data, "--against")
    result = ptq(*given, "other.onnx")
    text = " ".join(result.out.split())
    assert result.code == 0
    assert text.startswith("Warnings the quantized model: its output has little in common")
    assert "is that the model it was made of?" in text
    assert json.loads(ptq(*given, "other.onnx", "--json", "-").out)["suspects"][0]["serious"]
    assert "little in common" not in ptq(*given, model).out
