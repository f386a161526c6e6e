"""Requests that are impossible or useless: one line before any run, and nothing written."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from networks import build_network, gaussian_array
from PIL import Image

MODEL, USAGE = 1, 2


@pytest.fixture
def no_run(monkeypatch):
    """No model may run."""

    def run(*_: object) -> None:
        raise AssertionError("too late")

    monkeypatch.setattr("ptq.model.session.session.Session.run", run)
    monkeypatch.setattr("ptq.model.session.session.Session.run_into", run)


def test_s12_tensorrt_in_qoperator_form_is_refused_before_a_run(ptq, model, data, no_run):
    result = ptq("quantize", model, "--data", data, "--target", "tensorrt", "--format", "qoperator")
    assert result.code == USAGE
    assert result.line.startswith("error: target tensorrt cannot read form qoperator")
    assert result.line.endswith("choose --format qdq")
    assert os.listdir() == []


def test_messages_name_options_as_the_command_line_does(ptq, model, data):
    stats = "statistics.npz"
    assert ptq("calibrate", model, "--data", data, "-o", stats).code == 0
    result = ptq("quantize", model, "--stats", stats, "--max-drop", "1")
    assert result.code == USAGE
    assert result.line == "error: --max-drop needs samples; give --data or --eval"


def test_what_is_no_option_stays_as_it_is_written(ptq):
    result = ptq("inspect", "`data` of `mine`.onnx")
    assert result.code == MODEL
    assert "`mine`" in result.line


def test_a_report_given_as_a_plan_is_named(ptq, model, data):
    assert ptq("quantize", model, "--data", data, "--json", "report.json").code == 0
    result = ptq("quantize", model, "--data", data, "--plan", "report.json", "-o", "other.onnx")
    assert result.code == MODEL
    assert result.line.startswith("error: report.json: the file is a report, not a plan")
    assert not os.path.exists("other.onnx")


def test_arrays_in_nhwc_are_named_before_a_run(ptq, model, no_run):
    np.save("u8hwc.npy", np.zeros((9, 8, 8, 3), np.float32))
    result = ptq("quantize", model, "--data", "u8hwc.npy")
    assert result.code == MODEL
    assert "looks like NHWC for NCHW: transpose the arrays by (0, 3, 1, 2)" in result.line


def test_labels_named_y_are_to_be_renamed(ptq, model, no_run):
    np.savez("data.npz", x=np.zeros((9, 3, 8, 8), np.float32), y=np.zeros(9, int))
    result = ptq("quantize", model, "--data", "data.npz")
    assert result.code == MODEL
    assert "rename it to 'labels'" in result.line


def test_a_mean_of_pixels_beside_a_scale_of_0_to_1_is_refused_before_a_run(ptq, model, no_run):
    os.mkdir("images")
    for k in range(4):
        Image.new("RGB", (8, 8)).save(f"images/{k}.png")
    result = ptq("quantize", model, "--data", "images", "--mean", "72.9", "--std", "90")
    assert result.code == USAGE
    assert "mean 72.9 looks like a value for pixels of 0 … 255" in result.line


@pytest.mark.parametrize(
    ("command", "output"),
    [
        (("quantize", "--data"), "model.int8.onnx"),
        (("quantize", "--json", "r.json", "--data"), "r.json"),
        (("quantize", "--save-plan", "p.json", "--data"), "p.json"),
        (("calibrate", "-o", "stats.npz", "--data"), "stats.npz"),
        (("sensitivity", "--report", "page.html", "--data"), "page.html"),
        (("compare", "{model}", "--json", "c.json", "--data"), "c.json"),
        (("evaluate", "--json", "e.json", "--data"), "e.json"),
        (("verify", "--report", "v.html", "--data"), "v.html"),
    ],
)
def test_s14_no_clobber_refuses_an_existing_output_before_a_run(
    ptq, model, data, command, output, no_run
):
    Path(output).write_text("good")
    more = [str(model) if argument == "{model}" else argument for argument in command[1:]]
    result = ptq(command[0], model, *more, data, "--no-clobber")
    assert result.code == USAGE
    assert result.line == (
        f"error: output {output} exists and --no-clobber is set; give another name or remove it"
    )
    assert Path(output).read_text() == "good"
    assert os.listdir() == [output]


def test_no_output_of_verify_replaces_what_it_compares_with(ptq, model, data):
    Path("other.onnx").write_bytes(Path(model).read_bytes())
    given = ["--data", data, "--runtime", "qnn", "--against", "other.onnx"]
    result = ptq("verify", model, *given, "--json", "other.onnx")
    assert result.code == USAGE
    assert "other.onnx" in result.line
    assert Path("other.onnx").read_bytes() == Path(model).read_bytes()


@pytest.mark.parametrize(
    "arguments",
    [
        ("quantize", "-o", "absent/q.onnx"),
        ("quantize", "--json", "absent/r.json"),
        ("quantize", "--report", "absent/r.html"),
        ("quantize", "--save-plan", "absent/p.json"),
        ("quantize", "--summary", "absent/s.md"),
        ("quantize", "--checkpoint", "absent/state"),
        ("calibrate", "-o", "absent/s.npz"),
        ("evaluate", "--json", "absent/r.json"),
        ("verify", "--json", "absent/r.json"),
        ("sensitivity", "--report", "absent/r.html"),
    ],
)
def test_an_output_in_a_folder_that_does_not_exist_is_wrong_usage(ptq, model, data, arguments):
    command, *more = arguments
    result = ptq(command, model, "--data", data, *more)
    assert (result.code, result.line) == (
        USAGE,
        "error: output folder absent does not exist; create it first",
    )


def test_s14_a_replaced_output_is_reported_and_a_new_one_is_not(ptq, model, data):
    assert ptq("quantize", model, "--data", data, "--no-clobber").err == ""
    again = ptq("quantize", model, "--data", data, "--json", "-")
    assert again.code == 0
    assert again.line == "replaced model.int8.onnx"
    converted = ("convert", "model.int8.onnx", "-o", "q.onnx", "--format", "qoperator")
    assert ptq(*converted).err == ""
    assert ptq(*converted).line == "replaced q.onnx"
    assert ptq(*converted, "--no-clobber").code == USAGE


def test_a_checkpoint_that_is_continued_is_not_a_replaced_output(ptq, model, data):
    given = ("calibrate", model, "--data", data, "-o", "stats.npz", "--checkpoint", "state")
    assert ptq(*given).code == 0
    os.remove("stats.npz")
    again = ptq(*given, "--no-clobber")
    assert (again.code, again.err) == (0, "")


def test_s11_an_opset_that_cannot_be_kept_is_refused_by_name(ptq, data, no_run):
    network = build_network(
        "c = Conv(x, w)\ng = GlobalAveragePool(c)\ny = Flatten(g)",
        {"x": ("N", 3, 8, 8)},
        opset=11,
        w=gaussian_array(4, 3, 3, 3),
    )
    onnx.save(network, "old.onnx")
    for verb in (("quantize",), ("calibrate", "-o", "stats.npz")):
        result = ptq(verb[0], "old.onnx", *verb[1:], "--data", data, "--opset", "keep")
        assert result.code == MODEL
        assert "opset 11 cannot be kept" in result.line
        assert "export opset 13 or newer" in result.line
    assert os.listdir() == ["old.onnx"]


def test_a_fixed_batch_is_named_and_nothing_is_proposed_that_fails(ptq, model, data):
    given = ("quantize", model, "--data", data, "--effort", "fast", "--force", "--static-batch")
    assert "Next: ptq verify " in ptq(*given, 1, "-o", "one.onnx").out
    assert "Next: ptq inspect q.onnx" in ptq(*given, 4, "-o", "q.onnx").out
    assert ptq("inspect", "q.onnx").code == 0
    for arguments in (("verify", "q.onnx"), ("evaluate", "q.onnx"), ("compare", model, "q.onnx")):
        result = ptq(*arguments, "--data", data)
        assert result.code == MODEL
        assert "4 rows at once" in result.line
        assert "(with ptq: leave --static-batch out), or give a folder of .npz" in result.line
    said = "q.onnx has a fixed batch of 4, and the samples have 1; export it with a batch of 1 or "
    for arguments in (
        ("compare", "q.onnx", model, "--data", data),
        ("benchmark", model, "q.onnx"),
        ("benchmark", model, "q.onnx", "--data", data),
    ):
        result = ptq(*arguments)
        assert result.code == MODEL
        assert result.line.startswith(f"error: {said}")


def test_a_fixed_batch_is_measured_on_feeds_of_it(ptq, model, data):
    given = ("quantize", model, "--data", data, "--effort", "fast", "--force")
    assert ptq(*given, "--static-batch", 4, "-o", "q.onnx").code == 0
    os.mkdir("feeds")
    for number in range(3):
        np.savez(f"feeds/{number}.npz", x=gaussian_array(4, 3, 8, 8, seed=number))
    assert ptq("benchmark", model, "q.onnx", "--data", "feeds", "--seconds", "0.01").code == 0
    assert ptq("compare", "q.onnx", model, "--data", "feeds").code == 0
