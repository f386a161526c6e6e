"""Results that are larger than float, or larger and slower, on networks made for it. The times are real."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from networks import build_network, gaussian_array
from ptq_cli.main import app
from ptq_cli.process import run

import ptq
from ptq.core.wording import describe_size_ratio
from ptq.evaluation.report import benefit_check
from ptq.model.proto.serialize import count_serialized_bytes

WIDTH = 16


def tiny_network(depth: int = 8) -> onnx.ModelProto:
    """Layers of 16 channels with Sigmoids: quantizers take more bytes and more time than int8 saves."""
    lines, last, weights = [], "x", {}
    for k in range(depth):
        lines += [f"g{k} = Gemm({last}, w{k}, b{k})", f"s{k} = Sigmoid(g{k})"]
        weights[f"w{k}"] = gaussian_array(WIDTH, WIDTH, seed=k, scale=WIDTH**-0.5)
        weights[f"b{k}"] = gaussian_array(WIDTH, seed=k + 50)
        last = f"s{k}"
    lines.append(f"y = Gemm({last}, head, offset)")
    head, offset = gaussian_array(WIDTH, 4, seed=90), gaussian_array(4, seed=91)
    return build_network("\n".join(lines), {"x": ("n", WIDTH)}, head=head, offset=offset, **weights)


def large_network() -> onnx.ModelProto:
    """Two wide layers, which int8 makes four times smaller."""
    return build_network(
        "a = Gemm(x, w, b)\nr = Relu(a)\ny = Gemm(r, v, c)",
        {"x": ("n", WIDTH)},
        w=gaussian_array(WIDTH, 1024, seed=1),
        b=gaussian_array(1024, seed=2),
        v=gaussian_array(1024, 16, seed=3),
        c=gaussian_array(16, seed=4),
    )


SAMPLES = {"x": gaussian_array(60, WIDTH, seed=7)}


@pytest.fixture(autouse=True)
def refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse results that are larger by a byte, so that the networks of these tests can be small."""
    monkeypatch.setattr(benefit_check, "HARMLESS_BYTES", 0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    onnx.save(tiny_network(), tmp_path / "model.onnx")
    np.savez(tmp_path / "data.npz", **SAMPLES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def quantize(model: onnx.ModelProto, **options: Any) -> ptq.Result:
    return ptq.quantize(model, SAMPLES, effort="fast", threads=1, **options)


def test_a_larger_and_slower_result_is_an_error_that_carries_it():
    with pytest.raises(
        ptq.NoGainError, match=r"times larger and .* times slower than float"
    ) as caught:
        quantize(tiny_network())
    assert caught.value.result.report.int8_bytes > caught.value.result.report.float_bytes
    assert isinstance(caught.value, ptq.PtqError)


def test_a_small_file_that_grows_is_warned_about_but_not_refused(monkeypatch):
    monkeypatch.undo()
    report = quantize(tiny_network()).report
    assert "nothing is gained" in report.warnings[0]


def test_force_returns_it_and_every_form_of_the_report_says_so_first():
    report = quantize(tiny_network(), force=True).report
    assert report.warnings[0].startswith("the quantized model: ")
    assert "nothing is gained" in report.warnings[0]
    document = json.loads(report.to_json())
    assert next(iter(document)) == "warnings"
    assert document["warnings"][0] == report.warnings[0]
    assert document["speed_interval"][1] < 0.95
    page = report.to_html()
    assert page.index("times larger and") < page.index("range method")
    text = report.to_markdown()
    assert text.index("times larger and") < text.index("calibrated on")
    assert report.metrics()["larger_than_float"] == 1
    assert report.metrics()["speed_ratio_hi"] < 0.95


def test_a_result_that_is_only_larger_is_warned_about_in_the_first_line():
    report = quantize(tiny_network(), target="litert").report
    assert report.warnings[0].startswith("the quantized model: ")
    assert "times larger than float (quantizers and float32 weights" in report.warnings[0]


def test_the_first_line_of_a_tflite_file_has_the_size_of_that_file():
    pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")
    made = quantize(tiny_network(), target="litert", form="tflite")
    assert made.tflite is not None
    ratio = describe_size_ratio(made.report.float_bytes, len(made.tflite))
    assert made.report.warnings[0].startswith(f"the quantized model: {ratio} ")


def test_the_first_line_of_a_model_with_integer_inputs_has_its_size():
    made = quantize(tiny_network(), target="litert", io="int8")
    ratio = describe_size_ratio(made.report.float_bytes, count_serialized_bytes(made.graph.model))
    assert made.report.warnings[0].startswith(f"the quantized model: {ratio} ")


@pytest.mark.parametrize("form", ["qdq", "tflite"])
def test_only_an_onnx_model_is_warned_of_its_opset(form):
    pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")
    gelu = "g = Gemm(x, w)\nd = Div(g, root)\ne = Erf(d)\na = Add(e, one)\nm = Mul(g, a)\ny = Mul(m, half)"
    model = build_network(
        gelu, {"x": ("n", WIDTH)}, w=gaussian_array(WIDTH, WIDTH, seed=1),
        root=np.float32(2**0.5), one=np.float32(1), half=np.float32(0.5),
    )  # fmt: skip
    warnings = quantize(model, target="litert", form=form, force=True).report.warnings
    assert any("raised from 17 to 20" in text for text in warnings) is (form == "qdq")


def test_the_warning_stands_above_serious_ones_and_above_the_budget():
    broken = {"x": np.concatenate([SAMPLES["x"], np.zeros((40, WIDTH), np.float32)])}
    result = ptq.quantize(
        tiny_network(),
        SAMPLES,
        eval_data=broken,
        max_drop=0.0,
        effort="fast",
        threads=1,
        force=True,
    )
    assert "than float" in result.report.warnings[0]


def test_a_smaller_result_is_neither_refused_nor_larger():
    report = quantize(large_network()).report
    assert report.metrics()["larger_than_float"] == 0
    assert not any("larger" in warning for warning in report.warnings)


def test_the_model_does_not_depend_on_measured_time(monkeypatch):
    first = quantize(tiny_network(), force=True).model.SerializeToString()
    from ptq.evaluation.speed import Speed

    fast = Speed(9.0, (8.0, 10.0), 200)
    monkeypatch.setattr("ptq.evaluation.build_report.measure_speed", lambda *_, **__: fast)
    result = quantize(tiny_network())
    assert result.model.SerializeToString() == first
    assert result.report.speed == 9.0


COMMAND = ["quantize", "model.onnx", "--data", "data.npz", "--effort", "fast", "--threads", "1"]


def test_the_command_ends_with_exit_code_3_and_writes_nothing(folder, capsys):
    plan = ["--save-plan", "plan.json", "--report", "page.html", "--summary", "summary.md"]
    assert run(app, [*COMMAND, *plan, "-q"]) == 3
    assert sorted(path.name for path in folder.iterdir()) == ["data.npz", "model.onnx"]
    error = capsys.readouterr().err.strip().splitlines()
    assert len(error) == 1
    assert error[0].startswith("error: the quantized model is ")
    assert error[0].endswith("(option force) (ptq explain slower-than-float)")


def test_the_document_of_the_error_names_its_kind(folder, capsys):
    assert run(app, [*COMMAND, "--json", "-"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert document["error"]["kind"] == "no_gain"
    assert document["error"]["exit_code"] == 3


def test_force_writes_the_model_and_the_warning_is_the_first_line(folder, capsys):
    assert run(app, [*COMMAND, "--force"]) == 0
    assert (folder / "model.int8.onnx").exists()
    lines = [line.strip() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[0] == "Warnings"
    assert lines[1].startswith("the quantized model: ")
