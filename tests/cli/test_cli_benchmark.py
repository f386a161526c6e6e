"""Command ``ptq benchmark``: a row for each model, JSON, and what it refuses."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def quantized(ptq, model, data):
    """The model with its integers."""
    assert (
        ptq(
            "quantize", model, "--data", data, "-o", "q.onnx", "--effort", "fast", "--force", "-q"
        ).code
        == 0
    )
    return "q.onnx"


def test_each_model_has_its_row(ptq, model, quantized):
    result = ptq("benchmark", model, quantized, "--seconds", "0.05", "--no-memory")
    assert result.code == 0, result.err
    assert result.out.startswith("2 models, ")
    assert "inputs made from shapes: x " in result.out
    assert "open are guesses: --data measures yours" in " ".join(result.out.split())
    assert "  q.onnx: " in result.out  # a reason
    assert "1×" in result.out


def test_the_document_holds_every_model(ptq, model, quantized, data):
    result = ptq(
        "benchmark", model, quantized, "--data", data, "--seconds", "0.05", "--no-memory",
        "--threads", "1", "--json", "-",
    )  # fmt: skip
    assert "guesses" not in result.out + result.err
    document = json.loads(result.out)
    assert result.code == 0
    assert [entry["model"] for entry in document["models"]] == [str(model), str(quantized)]
    assert document["models"][1]["speed"] > 0
    assert document["threads"] == 1
    assert document["samples"] > 0


def test_lint_names_the_reasons_for_slow_integers_too(ptq, quantized):
    result = ptq("lint", quantized)
    assert "few rows (ONNX Runtime): 1 of 2 integer layers" in " ".join(result.out.split())


def test_a_model_that_is_missing_is_one_line(ptq, model):
    result = ptq("benchmark", model, "absent.onnx")
    assert result.code == 1
    assert result.err == "error: model absent.onnx does not exist; give the path of an .onnx file\n"


def test_the_document_replaces_no_model(ptq, model):
    result = ptq("benchmark", model, "--json", model)
    assert result.code == 2
    assert model.stat().st_size > 100
