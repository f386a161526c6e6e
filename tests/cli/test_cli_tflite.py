"""`.tflite` files on the command line: written, checked, verified, evaluated, converted; refusals of one line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import onnx
import pytest

from ptq.model.open import open_model
from ptq.rewrite.border.element_types import with_float16_border
from ptq.verification.verify import TensorDifference

MODEL, USAGE = 1, 2


@pytest.fixture
def tflite(ptq, model, data):
    """A quantized model as a `.tflite` file, and the JSON report of the run."""
    pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")
    done = ptq("quantize", model, "--data", data, "--target", "litert", "--effort", "fast",
               "-o", "m.tflite", "--json", "report.json")  # fmt: skip
    assert done.code == 0
    with open("report.json") as stream:
        return json.load(stream)


def test_a_name_that_ends_in_tflite_is_the_format(tflite):
    with open("m.tflite", "rb") as stream:
        assert stream.read(8)[4:] == b"TFL3"
    assert tflite["form"] == "tflite"
    assert tflite["int8_bytes"] == os.path.getsize("m.tflite")


def test_the_report_says_which_kernels_were_checked(tflite):
    reference, default = tflite["litert"]["kernels"]
    assert (reference["kernels"], reference["arithmetic"], reference["differing"]) == (
        "reference",
        "litert",
        0,
    )
    assert (default["kernels"], default["arithmetic"], default["differing"]) == (
        "xnnpack",
        "litert-xnnpack",
        0,
    )
    assert reference["elements"] > default["elements"] > 0
    assert any("checked in LiteRT" in line for line in tflite["changes"])


def test_a_file_without_a_name_ends_in_tflite(ptq, model, data):
    pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")
    options = ("--target", "litert", "--effort", "fast", "--format", "tflite")
    assert ptq("quantize", model, "--data", data, *options).code == 0
    assert os.listdir() == ["model.int8.tflite"]


def test_both_files_come_from_one_plan(ptq, model, data):
    pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")
    options = (
        "--target",
        "litert",
        "--effort",
        "fast",
        "--static-batch",
        2,
        "--save-plan",
        "plan.json",
    )
    done = ptq("quantize", model, "--data", data, *options, "-o", "m.tflite", "--also", "m.onnx")
    assert done.code == 0, done.err
    assert "Written: m.tflite, m.onnx." in " ".join(done.out.split())
    both = onnx.load("m.onnx")
    assert both.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 2
    again = ("--target", "litert", "--effort", "fast", "--static-batch", 2, "--plan", "plan.json")
    assert ptq("quantize", model, "--data", data, *again, "-o", "alone.onnx").code == 0
    alone = onnx.load("alone.onnx")
    assert list(both.graph.initializer) == list(alone.graph.initializer)
    assert list(both.graph.node) == list(alone.graph.node)
    assert ptq("convert", "m.onnx", "-o", "from_onnx.tflite").code == 0
    ours, theirs = (parse(name) for name in ("m.tflite", "from_onnx.tflite"))
    assert len(ours) > 3
    assert ours == theirs


def parse(name):
    """Constants of a file, in their order."""
    from ptq.model.tflite.interpreter import parse_model

    model = parse_model(Path(name).read_bytes())
    [graph] = model.subgraphs
    return [
        bytes(model.buffers[t.buffer].data)
        for t in graph.tensors
        if model.buffers[t.buffer].data is not None
    ]


def test_a_file_is_verified_linted_and_evaluated(ptq, tflite, model, data):
    verified = ptq("verify", "m.tflite", "--data", data)
    assert verified.code == 0
    assert "reference" in verified.out
    default = ptq("verify", "m.tflite", "--data", data, "--arithmetic", "litert-xnnpack")
    assert default.code == 0
    assert "(XNNPACK)" in default.out
    assert ptq("lint", "m.tflite").code == 0
    evaluated = ptq("evaluate", "m.tflite", "--data", data, "--against", model)
    assert evaluated.code == 0
    assert "int8 in LiteRT" in evaluated.out


def test_a_float_output_that_differs_in_its_last_bits_passes(ptq, model, data):
    pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")
    options = ("--target", "litert", "--effort", "fast", "--skip", "Gemm", "-o", "m.tflite")
    assert ptq("quantize", model, "--data", data, *options).code == 0
    done = ptq("verify", "m.tflite", "--data", data, "--json", "v.json")
    found = json.loads(Path("v.json").read_text())
    assert not found["equal"], "the float kernels agree here: the test shows nothing"
    assert (done.code, found["passed"]) == (0, True)
    assert 0 < found["first"]["largest_share"] < 1e-5


@pytest.mark.parametrize(
    ("differing", "share", "passes"),
    [(3, 1e-7, True), (3, 1e-4, False), (3, 0.0, False), (0, 0.0, True)],
    ids=["last bits", "more", "an integer, or another shape", "equal"],
)
def test_only_last_bits_of_floats_pass(differing, share, passes):
    tensor = TensorDifference("y", "n", "output", 10, differing, 0, 0, share)
    assert tensor.is_last_bits == passes


def test_a_file_is_compared_with_the_float16_model_that_it_was_made_of(ptq, model, data):
    pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")
    Path("half.onnx").write_bytes(with_float16_border(open_model(model)).to_bytes())
    options = ("--target", "litert", "--effort", "fast", "-o", "m.tflite")
    assert ptq("quantize", "half.onnx", "--data", data, *options).code == 0
    evaluate = ("evaluate", "m.tflite", "--data", data, "--json", "e.json")
    sqnr = []
    for float_model in (model, "half.onnx"):
        done = ptq(*evaluate, "--against", float_model)
        assert done.code == 0, done.err
        found = json.loads(Path("e.json").read_text())
        sqnr.append(found["forms"]["int8"]["outputs"][found["head"]]["sqnr_db"])
    assert sqnr[1] == pytest.approx(sqnr[0], abs=0.5)


def test_a_quantized_onnx_model_is_converted(ptq, tflite, data):
    assert ptq("convert", "m.tflite", "-o", "m.onnx", "--format", "qdq").code == 0
    assert ptq("convert", "m.onnx", "-o", "again.tflite", "--io", "int8").code == 0
    assert ptq("verify", "again.tflite", "--data", data).code == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-o", "m.tflite"], "error: a .tflite file needs another target than ort; choose a --target among litert, "),
        (["-o", "m.onnx", "--format", "tflite", "--target", "litert"], "error: output m.onnx is not of format"),
        (["-o", "m.tflit", "--target", "litert"], "error: output m.tflit ends in .tflit: is it a .tflite file?"),
        (["-o", "m.TFLITE", "--target", "litert"], "error: output m.TFLITE ends in .TFLITE: is it a .tflite file?"),
        (["-o", "m.tflite", "--format", "qdq"], "error: output m.tflite is not of format qdq"),
        (["-o", "m.onnx", "--also", "n.onnx"], "error: --also n.onnx is an ONNX model beside a .tflite file, "),
        (["-o", "m.tflite", "--also", "n.tflite", "--target", "litert"], "error: --also n.tflite is the ONNX model;"),
        (["-o", "m.tflite", "--also", "m", "--save-plan", "m", "--target", "litert"], "error: two outputs have"),
        (["--io", "int4"], "error: --io 'int4' is unknown; choose one of float, int8, float16"),
        (["--static-batch", "0"], "error: --static-batch 0 is not a whole number"),
    ],
)  # fmt: skip
def test_options_that_make_no_sense_are_one_line(ptq, model, data, options, said):
    result = ptq("quantize", model, "--data", data, *options)
    assert result.code == USAGE
    assert result.line.startswith(said), result.line
    assert os.listdir() == []


def test_without_the_package_nothing_is_written(ptq, model, data, monkeypatch):
    from ptq.model.tflite import schema

    schema.load_schema.cache_clear()
    monkeypatch.setattr(schema, "is_litert_installed", lambda: False)
    result = ptq("quantize", model, "--data", data, "--target", "litert", "-o", "m.tflite")
    assert result.code == MODEL
    assert "pip install 'onnx-ptq[litert]'" in result.line
    assert os.listdir() == []


def test_a_missing_form_is_named(ptq, model):
    result = ptq("convert", model, "-o", "m.onnx")
    assert result.code == USAGE
    assert result.line == "error: the form to convert to is missing; give --format"
    result = ptq("convert", model, "-o", "m.onnx", "--io", "int8")
    assert result.line == (
        "error: --io and --static-batch are of .tflite files; give an output that ends in .tflite"
    )


def test_benchmark_times_the_file_itself(tflite, ptq, model):
    given = ("benchmark", model, "m.tflite", "--seconds", "0.01", "--no-memory", "--json", "-")
    document = json.loads(ptq(*given).out)
    assert document["runtime"] == "litert"
    assert [entry["slow"] for entry in document["models"]] == [[], []]
    translated = json.loads(ptq(*given, "--runtime", "ort").out)
    assert translated["runtime"] == "ort"
    (reason,) = translated["models"][1]["slow"]
    assert reason.startswith("timed is a translation of the file into ONNX, not the file itself")


def test_compare_runs_the_file_in_litert(tflite, ptq, model, data):
    document = json.loads(ptq("compare", model, "m.tflite", "--data", data, "--json", "-").out)
    evaluated = ["evaluate", "m.tflite", "--data", data, "--against", model, "--json", "-"]
    form = json.loads(ptq(*evaluated).out)["forms"]["int8"]
    assert document["outputs"] == form["outputs"]
    assert document["speed_runtimes"] == ["litert", "litert"]
    turned = ptq("compare", "m.tflite", model, "--data", data)
    assert "the old model (LiteRT, batch 1)" in turned.out


def test_compare_names_both_runtimes_where_litert_does_not_take_the_other_model(
    tflite, ptq, model, data
):
    options = ("--data", data, "--effort", "fast", "--force", "-o", "q.onnx")
    assert ptq("quantize", model, *options).code == 0
    result = ptq("compare", "q.onnx", "m.tflite", "--data", data)
    assert result.code == 0
    assert "(the old model in ONNX Runtime, the new one in LiteRT, batch 1)" in " ".join(
        result.out.split()
    )


def test_benchmark_names_a_model_that_litert_does_not_take(tflite, ptq, model, data):
    options = ("--data", data, "--effort", "fast", "--force", "-o", "q.onnx")
    assert ptq("quantize", model, *options).code == 0
    given = ("benchmark", model, "q.onnx", "m.tflite", "--seconds", "0.01", "--no-memory")
    result = ptq(*given)
    assert result.code == MODEL
    assert result.line.startswith("error: q.onnx: tensor ")
    assert "all models run in LiteRT, unless --runtime is ort" in result.line
    assert ptq(*given, "--runtime", "ort").code == 0
