"""One thing given for another: one line on standard error, the documented exit code, and nothing written."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from networks import build_network, gaussian_array
from onnx import TensorProto, helper
from PIL import Image
from ptq_cli.options.parsers import parse_scale

MODEL, USAGE = 1, 2


@pytest.mark.parametrize("verb", [["lint"], ["convert", "-o", "c.onnx", "--format", "qdq"]])
def test_a_float_model_is_nothing_to_lint_or_convert(ptq, model, verb):
    result = ptq(verb[0], model, *verb[1:])
    assert result.code == MODEL
    assert result.line == "error: the model has no integer tensor; quantize it first"
    assert os.listdir() == []


def test_a_float_model_cannot_be_evaluated_in_integers(ptq, model, data):
    result = ptq("evaluate", model, "--data", data, "--engine", "integer")
    assert result.code == MODEL
    assert "quantize it first" in result.line
    assert ptq("evaluate", model, "--data", data).code == 0


def test_an_arithmetic_is_of_the_integer_executor(ptq, model, data):
    given = ("evaluate", model, "--data", data, "--arithmetic", "litert")
    for more in ((), ("--engine", "ort")):
        result = ptq(*given, *more)
        assert result.code == USAGE
        assert result.line == (
            "error: arithmetic litert is of the integer executor; choose --engine integer, or leave --arithmetic out"
        )


def test_integers_are_converted_in_one_form_alone(ptq, model):
    for form, output in (("qdq", "c.onnx"), ("tflite", "c.tflite")):
        result = ptq("convert", model, "-o", output, "--format", form, "--integers")
        assert result.code == USAGE
        assert (
            result.line
            == f"error: the option integers is of form qoperator, not {form}; leave it out"
        )


def tiny(classes: int, output: str = "y", also: str = "") -> onnx.ModelProto:
    """A network of the fixture's input with other outputs."""
    names = [output, *also.split()]
    nodes = f"g = GlobalAveragePool(x)\nf = Flatten(g)\n{output} = Gemm(f, w)\n"
    nodes += "".join(f"{name} = Relu(f)\n" for name in also.split())
    return build_network(nodes, {"x": ("N", 3, 8, 8)}, names[::-1], w=gaussian_array(3, classes))


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (tiny(9), "→ y[?, 9]; expected x[?, 3, 8, 8] → y[?, 4]. Pass"),
        (tiny(4, "scores", "more"), "more[?, 3], scores[?, 4]"),
        (build_network("y = Relu(x)", {"x": ("N", 3, 8, 8)}), "→ y[?, 3, 8, 8]; expected"),
        (
            build_network("g = Add(z, z)\ny = Flatten(g)", {"z": ("N", 4)}),
            "inputs or outputs: z[?, 4] →",
        ),
    ],
    ids=["classes", "outputs", "image", "inputs"],
)
def test_another_model_is_nothing_to_compare_with(ptq, model, data, other, said):
    onnx.save(other, "other.onnx")
    result = ptq("evaluate", model, "--data", data, "--against", "other.onnx")
    assert result.code == MODEL
    assert said in result.line


@pytest.mark.parametrize("other", [tiny(4, "renamed"), tiny(4, "y", "z")], ids=["name", "more"])
def test_the_outputs_compared_are_those_of_one_name_or_all_in_their_order(ptq, model, data, other):
    onnx.save(other, "other.onnx")
    result = ptq("evaluate", model, "--data", data, "--against", "other.onnx", "--json", "-")
    assert result.code == 0
    assert [*json.loads(result.out)["forms"]["other"]["outputs"]] == ["y"]


@pytest.mark.parametrize("option", ["--plan", "--stats"])
def test_a_device_without_an_end_is_no_plan_and_no_statistics(
    ptq, model, data, option, monkeypatch
):
    monkeypatch.setattr("ptq.core.files.read.__defaults__", (1000,))
    result = ptq("quantize", model, "--data", data, option, "/dev/zero")
    assert result.code == MODEL
    assert result.line.startswith("error: /dev/zero: cannot be read (more than 0 MB, and not a reg")


def test_brackets_without_an_end_are_no_plan(ptq, model, data):
    with open("deep.json", "w") as stream:
        stream.write("[" * 100_000)
    result = ptq("quantize", model, "--data", data, "--plan", "deep.json")
    assert result.code == MODEL
    assert result.line == (
        "error: deep.json: the plan is nested too deeply to be a plan; create a new plan "
        "(ptq explain refused-data)"
    )


def test_nodes_to_skip_beside_a_plan_are_a_contradiction(ptq, model, data):
    assert ptq("quantize", model, "--data", data, "--save-plan", "p.json").code == 0
    result = ptq("quantize", model, "--data", data, "--plan", "p.json", "--skip", "conv")
    assert result.code == USAGE
    assert "a plan already lists the float nodes" in result.line


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--arithmetic", "arithmetic 'nope' is unknown"),
        ("--skip", "cannot skip nope: the prepared"),
    ],
)
def test_a_name_of_nothing_is_found_out_before_a_sample_is_run(
    ptq, model, data, option, said, monkeypatch
):
    def run(*_: object) -> None:
        raise AssertionError("too late")

    monkeypatch.setattr("ptq.model.session.session.Session.run", run)
    monkeypatch.setattr("ptq.model.session.session.Session.run_into", run)
    result = ptq("quantize", model, "--data", data, option, "nope")
    assert result.code == USAGE
    assert said in result.line


def test_a_pattern_that_the_shell_replaced_is_to_be_quoted(ptq, model):
    for name in ("a.png", "b.png"):
        Path(name).touch()
    result = ptq("quantize", model, "--data", "a.png", "b.png")
    assert result.code == USAGE
    assert "put a pattern of files in quotes" in result.line
    other = ptq("quantize", model, "more", "--data", "a.png")
    assert "got unexpected extra argument" in other.line


def test_a_message_says_where_samples_and_numbers_go(ptq, model, data):
    for given in ((model, data), (model, "--data", data, "--mean", "0.5", "0.5", "0.5")):
        result = ptq("quantize", *given)
        assert result.code == USAGE
        assert (
            "samples follow --data, and the numbers of one option are joined by commas"
            in result.line
        )
    assert "--data" not in ptq("convert", model, "c.onnx", "-o", "d.onnx").line


@pytest.mark.parametrize(
    "command", ["benchmark", "calibrate", "convert", "inspect", "lint", "ops", "tune"]
)
def test_an_option_of_other_commands_is_one_line(ptq, command):
    result = ptq(command, "--report", "page.html")
    assert result.code == USAGE
    assert result.line.startswith("error: no such option: --report")
    assert result.line.endswith(f"; see ptq {command} --help")


def test_one_image_is_no_folder_of_images(ptq, model):
    Path("a.png").touch()
    result = ptq("quantize", model, "--data", "a.png")
    assert result.code == MODEL
    assert result.line.startswith("error: a.png: is a single image; give the folder of the images")


def test_the_scale_may_be_the_fraction_that_reports_show(ptq, model):
    for scale, code in (("1/255", MODEL), ("1/0", USAGE), ("1/a", USAGE)):
        result = ptq("evaluate", model, "--data", "absent", "--scale", scale)
        assert result.code == code, result.line
    assert parse_scale("1/255") == 1 / 255


def test_a_comma_is_no_decimal_sign(ptq, model, data):
    result = ptq("quantize", model, "--data", data, "--mean", "0,286")
    assert result.code == USAGE
    assert "--mean 0,286 has 2 values; " in result.line
    assert "(the decimal sign is a point)" in result.line


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--transcripts", "absent.txt"], "absent.txt: cannot be read (No such file or directory)"),
        (["--cost-table", "{data}"], "no table of times (it is not text); give a table that"),
        (["--stats", "{data}"], "holds arrays, but no calibration statistics; create it by"),
    ],
)
def test_a_file_of_another_kind_is_named_without_words_of_python(ptq, model, data, options, said):
    given = ["--data", data] if "--stats" not in options else []
    result = ptq("quantize", model, *given, *(part.format(data=data) for part in options))
    assert said in result.line
    assert not any(word in result.line for word in ("Errno", "codec", "Error)"))


@pytest.mark.parametrize("verb", ["quantize", "evaluate", "sensitivity"])
def test_an_empty_path_of_samples_is_not_the_current_folder(ptq, model, verb):
    result = ptq(verb, model, "--data", "")
    assert result.code == USAGE
    assert result.line.startswith("error: a path of samples is empty")


def test_a_callable_that_ends_the_process_is_one_line(ptq, model, folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "quitting.py").write_text("def feeds():\n    raise SystemExit(0)\n")
    result = ptq("quantize", model, "--data", "quitting:feeds")
    assert result.code == MODEL
    assert "quitting:feeds: raised SystemExit: 0" in result.line


@pytest.mark.parametrize("verb", ["quantize", "evaluate", "sensitivity"])
def test_labels_that_are_no_classes_of_the_model_are_one_line(ptq, model, data, verb):
    arrays = dict(np.load(data))
    np.savez("from_one.npz", **{**arrays, "labels": arrays["labels"] + 1})
    result = ptq(verb, model, "--data", "from_one.npz")
    assert result.code == MODEL
    assert (
        "label 4 is not a class of output y, whose classes are 0 to 3; number labels" in result.line
    )
    assert os.listdir() == ["from_one.npz"]


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": np.array(["a", "b"])}, "input 'x' is of type <U1; the model takes float32["),
        ({"labels": np.full(4, 0.5)}, "label 0.5 is no whole number"),
        ({"labels": np.array(["cat"] * 4)}, "label 'cat' is a name"),
    ],
)
def test_texts_and_fractions_are_distinguished_by_their_type(ptq, model, arrays, said):
    np.savez("d.npz", **{"x": np.zeros((4, 3, 8, 8), np.float32), **arrays})
    result = ptq("quantize", model, "--data", "d.npz")
    assert result.code == MODEL
    assert said in result.line


@pytest.mark.parametrize(
    "kind",
    [
        helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [3])),
        helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [3])),
    ],
    ids=["sequence", "optional"],
)
def test_an_input_that_is_no_tensor_is_not_fed(ptq, folder, kind):
    op = "SequenceAt" if kind.HasField("sequence_type") else "OptionalGetElement"
    model = build_network(f"t = {op}(s, i)\ny = Relu(t)", {"i": ()}, types={"i": TensorProto.INT64})
    if op == "OptionalGetElement":
        model.graph.node[0].input.pop()
    model.graph.input.append(helper.make_value_info("s", kind))
    onnx.save(model, "m.onnx")
    np.savez("d.npz", s=np.zeros((2, 3), np.float32), i=np.zeros(2, np.int64))
    result = ptq("quantize", "m.onnx", "--data", "d.npz")
    assert result.code == MODEL
    assert "input s has no shape or is not a tensor of numbers" in result.line


def test_a_pipe_behind_a_link_is_no_output(ptq, model, data):
    os.mkfifo("pipe")
    os.symlink("pipe", "link")
    result = ptq("quantize", model, "--data", data, "-o", "link")
    assert result.code == USAGE
    assert "output link is a folder or a device" in result.line


@pytest.mark.parametrize(
    "arguments",
    [
        "inspect LONG",
        "init LONG",
        "inspect MODEL --save-config LONG",
        "quantize MODEL --data LONG",
        "quantize MODEL --data LONG.tar",
        "quantize MODEL --data DATA --cache LONG",
        "evaluate MODEL --data IMAGES --boxes LONG",
        "frontier MODEL --data DATA --save LONG --plot LONG.svg",
    ],
)
def test_a_name_too_long_for_a_file_is_one_line(ptq, model, data, arguments):
    Path("images").mkdir()
    Image.new("RGB", (8, 8)).save("images/a.png")
    words = {"MODEL": model, "DATA": data, "LONG": "x" * 300, "IMAGES": "images"}
    result = ptq(*(words.get(w, w.replace("LONG", "x" * 300)) for w in arguments.split()))
    assert result.code in (MODEL, USAGE)
    assert result.line.startswith("error: ")
    assert "internal" not in result.line


def test_a_long_list_in_braces_names_shards(ptq, model):
    with tarfile.open("s-00.tar", "w") as shard:
        content = io.BytesIO()
        np.save(content, np.zeros((1, 3, 8, 8), np.float32))
        member = tarfile.TarInfo("0.npy")
        member.size = content.tell()
        content.seek(0)
        shard.addfile(member, content)
    for k in range(1, 100):
        Path(f"s-{k:02d}.tar").write_bytes(Path("s-00.tar").read_bytes())
    names = ",".join(f"{k:02d}" for k in range(100))
    result = ptq("calibrate", model, "--data", f"s-{{{names}}}.tar", "-o", "s.npz")
    assert result.code == 0, result.err
