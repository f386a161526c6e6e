"""What goes wrong is one line on standard error and an exit code, as the design lists them."""

from __future__ import annotations

import os

import numpy as np
import onnx
import pytest

MODEL, USAGE = 1, 2


def test_a_missing_model_is_one_line(ptq, data):
    result = ptq("quantize", "absent.onnx", "--data", data)
    assert result.code == MODEL
    assert result.line.startswith("error: ")
    assert "absent.onnx" in result.line
    assert result.out == ""


@pytest.mark.parametrize("command", [["inspect"], ["quantize", "--data", "{data}"]])
def test_a_text_file_is_no_model(ptq, data, folder, command):
    (folder / "notes.onnx").write_text("these are notes\n")
    arguments = [part.format(data=data) for part in command]
    result = ptq(arguments[0], folder / "notes.onnx", *arguments[1:])
    assert result.code == MODEL
    assert "notes.onnx" in result.line


def test_an_empty_model_file_is_no_model(ptq, folder):
    (folder / "empty.onnx").touch()
    result = ptq("inspect", folder / "empty.onnx")
    assert result.code == MODEL
    assert "empty.onnx" in result.line


def test_an_empty_folder_is_no_data(ptq, model, folder):
    (folder / "none").mkdir()
    result = ptq("quantize", model, "--data", folder / "none")
    assert result.code == MODEL
    assert str(folder / "none") in result.line


def test_missing_data_are_one_line(ptq, model, folder):
    result = ptq("quantize", model, "--data", folder / "absent")
    assert result.code == MODEL
    assert "absent" in result.line


def test_a_wrong_shape_names_the_input_and_both_shapes(ptq, model, folder):
    np.savez(folder / "wrong.npz", x=np.zeros((4, 3, 9, 8), np.float32))
    result = ptq("quantize", model, "--data", folder / "wrong.npz")
    assert result.code == MODEL
    assert "9" in result.line
    assert "8" in result.line
    assert "x" in result.line


def test_statistics_of_another_model_are_refused(ptq, model, data, folder):
    other = onnx.load(model)
    other.graph.initializer[0].raw_data = bytes(len(other.graph.initializer[0].raw_data))
    onnx.save(other, folder / "other.onnx")
    assert ptq("calibrate", folder / "other.onnx", "--data", data, "-o", "s.npz").code == 0
    for arguments in (["quantize"], ["calibrate", "-o", "t.npz"]):
        flag = "--stats" if arguments[0] == "quantize" else "--merge"
        result = ptq(*arguments, model, flag, "s.npz")
        assert result.code == MODEL
        assert "another graph" in result.line


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["quantise"], id="unknown command"),
        pytest.param(["quantize"], id="no model"),
        pytest.param(["quantize", "{model}"], id="no data"),
        pytest.param(["quantize", "{model}", "--data", "{data}", "--colour"], id="unknown option"),
        pytest.param(["quantize", "{model}", "--data", "{data}", "--target", "x"], id="target"),
        pytest.param(["quantize", "{model}", "--data", "{data}", "--method", "x"], id="method"),
        pytest.param(["quantize", "{model}", "--data", "{data}", "--format", "x"], id="format"),
        pytest.param(["quantize", "{model}", "--data", "{data}", "--arithmetic", "x"], id="arith"),
        pytest.param(["quantize", "{model}", "--data", "{data}", "--skip", "x"], id="skip"),
        pytest.param(["quantize", "{model}", "--data", "{data}", "--samples", "0"], id="samples"),
        pytest.param(["quantize", "{model}", "--data", "{data}", "--samples", "x"], id="number"),
        pytest.param(["quantize", "{model}", "--data", "{data}", "--size", "8"], id="size"),
        pytest.param(["quantize", "{model}", "--data", "{data}", "--mean", "a,b"], id="mean"),
        pytest.param(["quantize", "{model}", "--data", "{data}", "--layout", "CHW"], id="layout"),
        pytest.param(["calibrate", "{model}", "-o", "s.npz"], id="nothing to observe"),
        pytest.param(
            ["calibrate", "{model}", "--data", "{data}", "-o", "s.npz", "--shard", "1"], id="shard"
        ),
        pytest.param(
            ["calibrate", "{model}", "--data", "{data}", "-o", "s.npz", "--shard", "3/3"],
            id="no such shard",
        ),
        pytest.param(["evaluate", "{model}", "--data", "{data}", "--engine", "x"], id="engine"),
        pytest.param(["inspect", "{model}", "--target", "x"], id="inspect's target"),
        pytest.param(["quantize", "{model}", "--data", "{data}", "-o", "{model}"], id="over input"),
        pytest.param(["quantize", "{model}", "--data", "{data}", "-o", "{data}"], id="over data"),
        pytest.param(
            ["quantize", "{model}", "--data", "{data}", "-o", "a", "--json", "./a"], id="one place"
        ),
    ],
)
def test_usage_is_one_line_and_exit_code_2(ptq, model, data, arguments):
    result = ptq(*(part.format(model=model, data=data) for part in arguments))
    assert result.code == USAGE
    assert result.line.startswith("error: ")
    assert result.out == ""


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_the_input_is_recognized_under_another_name(ptq, model, data, link):
    link(model, "elsewhere.onnx")
    before = model.read_bytes()
    result = ptq("quantize", model, "--data", data, "-o", "elsewhere.onnx")
    assert result.code == USAGE
    assert "input" in result.line
    assert model.read_bytes() == before


def test_an_output_that_cannot_be_written_stops_before_any_sample_is_read(ptq, model, monkeypatch):
    monkeypatch.setattr("ptq.api.quantize.quantize", lambda *_, **__: pytest.fail("the work began"))
    result = ptq("quantize", model, "--data", "anything", "-o", "no/such/folder/out.onnx")
    assert result.code == USAGE
    assert "no/such/folder" in result.line


@pytest.mark.parametrize("place", [".", os.devnull])
def test_a_folder_or_a_device_is_no_output(ptq, model, data, place):
    result = ptq("quantize", model, "--data", data, "-o", place)
    assert result.code == USAGE
    assert "folder or a device" in result.line
    assert not os.path.isfile(os.devnull)


@pytest.mark.parametrize(
    "arguments",
    [
        ["quantize", "{model}", "--data", "{data}", "-o", "-"],
        ["quantize", "{model}", "--data", "{data}", "--save-plan", "-"],
        ["quantize", "{model}", "--data", "{data}", "--report", "-"],
        ["quantize", "{model}", "--data", "{data}", "--checkpoint", "-"],
        ["sensitivity", "{model}", "--data", "{data}", "--report", "./-"],
        ["calibrate", "{model}", "--data", "{data}", "-o", "-"],
        ["convert", "{model}", "--format", "qdq", "-o", "-"],
    ],
    ids=lambda arguments: " ".join(arguments[::-1][1::-1]),
)
def test_standard_output_takes_json_alone(ptq, model, data, arguments):
    result = ptq(*(part.format(model=model, data=data) for part in arguments))
    assert result.code == USAGE
    assert (
        result.line == "error: only --json can write to standard output; replace - by a file name"
    )
    assert os.listdir() == []


@pytest.mark.parametrize("error", [TypeError("a\nb"), RecursionError("deep"), KeyError("k")])
def test_a_fault_of_ptq_is_one_line_that_asks_for_a_report(ptq, model, monkeypatch, error):
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("ptq.api.inspect.inspect", fail)
    result = ptq("inspect", model)
    assert result.code == MODEL
    assert f"internal: {type(error).__name__}" in result.line
    monkeypatch.setenv("PTQ_TRACEBACK", "1")
    assert "Traceback" in ptq("inspect", model).err


def test_lack_of_memory_is_one_line(ptq, model, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("ptq.api.inspect.inspect", fail)
    result = ptq("inspect", model)
    assert result.code == MODEL
    assert "memory" in result.line


def test_control_characters_of_a_name_do_not_reach_the_terminal(ptq, model, folder):
    hostile = onnx.load(model)
    hostile.graph.node[0].name = "conv\x1b[31m[bold]"
    onnx.save(hostile, folder / "hostile.onnx")
    result = ptq("inspect", folder / "hostile.onnx")
    assert result.code == 0
    assert "\x1b" not in result.out
    assert "[bold]" in result.out


@pytest.mark.parametrize("command", ["inspect", "quantize", "lint"])
def test_a_pipe_is_no_model_and_nobody_waits_for_it(ptq, data, folder, command):
    os.mkfifo(folder / "pipe.onnx")
    result = ptq(
        command, folder / "pipe.onnx", *(["--data", data] if command == "quantize" else [])
    )
    assert result.code == MODEL
    assert "pipe.onnx is not a regular file" in result.line


@pytest.mark.parametrize("command", ["inspect", "quantize", "lint"])
def test_a_name_that_no_file_can_have_is_one_line(ptq, data, folder, command):
    more = ["--data", data, "-o", folder / "q.onnx"] if command == "quantize" else []
    result = ptq(command, "a" * 5000, *more)
    assert result.code == MODEL
    assert "File name too long" in result.line


@pytest.mark.parametrize("option", ["--save-plan", "--report", "--json", "--checkpoint", "-o"])
def test_an_output_s_name_that_no_file_can_have_is_one_line(ptq, model, data, option):
    result = ptq("quantize", model, "--data", data, option, "a" * 300)
    assert result.code == USAGE
    assert "File name too long" in result.line


@pytest.mark.parametrize("target", ["m.int8.onnx", "absent/q.onnx"], ids=["itself", "nowhere"])
def test_a_link_that_cannot_be_followed_stops_before_any_sample_is_read(
    ptq, model, monkeypatch, folder, target
):
    monkeypatch.chdir(folder)
    (folder / "m.int8.onnx").symlink_to(target)
    result = ptq("quantize", model, "--data", "/absent", "-o", "m.int8.onnx")
    assert result.code == USAGE
    assert "absent; " not in result.line
    assert "output" in result.line
    assert (folder / "m.int8.onnx").is_symlink()


def test_names_that_are_no_text_are_written_and_reported(ptq, model, data, folder):
    odd = folder / "\udcff\udcfe.onnx"
    os.rename(model, odd)
    places = [folder / f"\udcff.{end}" for end in ("onnx", "html", "json")]
    wanted = zip(("-o", "--report", "--json"), places, strict=True)
    result = ptq("quantize", odd, "--data", data, *(part for pair in wanted for part in pair))
    assert result.code == 0
    assert all(place.stat().st_size for place in places)
    assert "\udcff" not in places[1].read_text(encoding="utf-8")


@pytest.mark.parametrize("reference", ["foo", ":", "foo:", ":bar"])
def test_a_metric_is_named_by_its_module_and_itself(ptq, model, data, reference):
    result = ptq("quantize", model, "--data", data, "--metric", reference)
    assert result.code == USAGE
    assert "is not of the form module:callable" in result.line


def test_a_module_that_ends_the_process_is_one_line(ptq, model, data, folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "leaving.py").write_text("raise SystemExit(0)\n")
    result = ptq("quantize", model, "--data", data, "--metric", "leaving:metric")
    assert result.code == USAGE
    assert "cannot import it: SystemExit" in result.line


def test_more_threads_than_any_machine_has_are_refused(ptq, model, data):
    result = ptq("quantize", model, "--data", data, "--threads", "100000")
    assert result.code == USAGE
    assert "--threads" in result.line
