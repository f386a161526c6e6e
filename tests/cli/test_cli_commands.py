"""Each command from its arguments to its output; the oracle is what the Python verbs return."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from networks import build_network, gaussian_array
from PIL import Image

from ptq.core.plan import Plan
from ptq.observers.calibration_file import load


def test_quantize_writes_its_model_in_the_current_folder_and_says_so(ptq, model, data):
    result = ptq("quantize", model, "--data", data)
    assert (result.code, result.err) == (0, "")
    assert [p.name for p in Path().iterdir()] == ["model.int8.onnx"]
    onnx.checker.check_model(onnx.load("model.int8.onnx"))
    assert "Written: model.int8.onnx" in result.out
    assert "Accuracy ON CALIBRATION SAMPLES (24 samples)" in result.out


def test_quantize_leaves_the_input_model_as_it_was(ptq, model, data):
    before = model.read_bytes()
    assert ptq("quantize", model, "--data", data).code == 0
    assert model.read_bytes() == before
    assert sorted(p.name for p in model.parent.iterdir()) == ["data.npz", "model.onnx"]


@pytest.mark.usefixtures("native_sums")
def test_another_process_writes_the_same_bytes_with_any_batch_and_threads(ptq, model, data):
    mine, theirs = ("one.onnx", "one.json"), ("two.onnx", "two.json")
    command = ["quantize", model, "--data", data, "--weights", "reduced"]
    few = ["-o", mine[0], "--save-plan", mine[1], "--batch", 1, "--threads", 1]
    many = ["-o", theirs[0], "--save-plan", theirs[1], "--batch", 16, "--threads", 2]
    assert ptq(*command, *few).code == 0
    subprocess.run(
        [sys.executable, "-m", "ptq", *map(str, [*command, *many])],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    for one, two in zip(mine, theirs, strict=True):
        assert Path(one).read_bytes() == Path(two).read_bytes()


@pytest.mark.parametrize("place", ["-", "report.json"])
def test_the_json_of_quantize_has_the_three_forms(ptq, model, data, place):
    result = ptq("quantize", model, "--data", data, "--eval", data, "--json", place)
    assert result.code == 0
    document = json.loads(result.out if place == "-" else Path(place).read_text())
    assert list(document["evaluation"]["forms"]) == ["float", "int8", "integers"]
    assert document["evaluation"]["samples"] == 24
    assert document["evaluated_on"] == "on calibration samples"
    assert document["int8_bytes"] == len(Path("model.int8.onnx").read_bytes())


def test_a_qoperator_model_holds_integer_operators(ptq, model, data):
    assert ptq("quantize", model, "--data", data, "--format", "qoperator").code == 0
    ops = {node.op_type for node in onnx.load("model.int8.onnx").graph.node}
    assert "QLinearConv" in ops


def test_a_saved_plan_makes_the_same_model_again(ptq, model, data):
    command = ["quantize", model, "--data", data, "--no-metadata"]  # they say that a plan was given
    assert ptq(*command, "--save-plan", "plan.json").code == 0
    assert Plan.from_json(Path("plan.json").read_text()).target == "ort"
    assert ptq(*command, "--plan", "plan.json", "-o", "again.onnx").code == 0
    assert Path("again.onnx").read_bytes() == Path("model.int8.onnx").read_bytes()


def test_a_skipped_node_stays_float_and_the_report_says_why(ptq, model, data):
    result = ptq("quantize", model, "--data", data, "--skip", "head")
    assert result.code == 0
    assert "float: 1 Gemm: skipped by the user" in result.out


def test_statistics_replace_data_and_nothing_is_run_again(ptq, model, data):
    assert ptq("calibrate", model, "--data", data, "-o", "stats.npz").code == 0
    result = ptq("quantize", model, "--stats", "stats.npz", "--method", "minmax")
    assert result.code == 0
    assert "Accuracy was not measured" in result.out
    assert "range method minmax, calibrated on 24 samples" in result.out


def test_shards_merged_are_the_whole_bit_for_bit(ptq, model, data):
    assert ptq("calibrate", model, "--data", data, "-o", "whole.npz").code == 0
    for k in range(3):
        shard = ["--shard", f"{k}/3", "-o", f"{k}.npz"]
        assert ptq("calibrate", model, "--data", data, *shard).code == 0
    merge = ["--merge", "2.npz", "--merge", "0.npz", "--merge", "1.npz"]
    assert ptq("calibrate", model, *merge, "-o", "merged.npz").code == 0
    assert Path("merged.npz").read_bytes() == Path("whole.npz").read_bytes()


def test_new_data_are_added_to_earlier_statistics(ptq, model, data):
    assert ptq("calibrate", model, "--data", data, "-o", "one.npz").code == 0
    np.savez("other.npz", x=np.random.default_rng(1).normal(size=(24, 3, 8, 8)).astype(np.float32))
    again = ptq("calibrate", model, "--data", "other.npz", "--merge", "one.npz", "-o", "two.npz")
    assert again.code == 0
    assert load(Path("two.npz")).samples == 48


def test_inspect_names_every_node_and_its_precision(ptq, model):
    result = ptq("inspect", model, "--skip", "Gemm", "--json", "-")
    fates = {node["name"]: node["fate"] for node in json.loads(result.out)["nodes"]}
    assert result.code == 0
    assert fates.pop("head") == "float"
    assert set(fates.values()) == {"int8"}
    assert "skipped by the user" in ptq("inspect", model, "--skip", "Gemm").out


def test_inspect_and_quantize_count_the_same_nodes(ptq, model, data):
    before = ptq("inspect", model).out
    after = ptq("quantize", model, "--data", data, "--effort", "fast", "-o", "q.onnx").out
    assert "nodes: 5 int8 (1 of them may be folded into the node before), 0 float" in before
    assert "nodes: 4 int8, 1 folded into the node before, 0 float" in after


def test_evaluate_alone_measures_accuracy(ptq, model, data):
    result = ptq("evaluate", model, "--data", data, "--json", "-")
    forms = json.loads(result.out)["forms"]
    assert result.code == 0
    assert forms["float"]["accuracy"]["labelled"] == 24


@pytest.mark.parametrize("verb", [("evaluate",), ("calibrate", "-o", "stats.npz")])
def test_it_is_said_how_images_were_prepared_and_what_was_assumed(ptq, model, folder, verb):
    (folder / "images").mkdir()
    for shade in range(3):
        Image.new("RGB", (9, 9), (90 * shade, 80, 70)).save(folder / "images" / f"{shade}.png")
    arguments = [*verb, model, "--data", folder / "images"]
    printed = " ".join(ptq(*arguments).out.split())
    assert (
        "images: RGB, resized to 8×8, bilinear, × 1/255, − (0.485, 0.456, 0.406), ÷ (0.229,"
        in printed
    )
    assert "ImageNet's mean and standard deviation are assumed" in printed
    plain = ptq(*arguments, "--mean", "0", "--std", "1").out
    assert "× 1/255, − (0), ÷ (1), NCHW" in plain
    assert "assumed" not in plain


def test_the_json_of_evaluate_says_how_images_were_prepared(ptq, model, folder):
    (folder / "images").mkdir()
    Image.new("RGB", (8, 8)).save(folder / "images" / "black.png")
    arguments = ["evaluate", model, "--data", folder / "images", "--scale", "1", "--json", "-"]
    told = json.loads(ptq(*arguments).out)["preprocessing"]
    assert told == {
        "channels": "RGB",
        "size": [8, 8],
        "interpolation": "bilinear",
        "scale": 1,
        "layout": "NCHW",
    }


@pytest.mark.parametrize(("engine", "form"), [("ort", "int8"), ("integer", "integers")])
def test_evaluate_against_the_float_model_measures_fidelity(ptq, model, data, engine, form):
    assert ptq("quantize", model, "--data", data, "-o", "q.onnx").code == 0
    arguments = ["evaluate", "q.onnx", "--data", data, "--against", model, "--engine", engine]
    result = ptq(*arguments, "--json", "-")
    assert result.code == 0
    assert json.loads(result.out)["forms"][form]["outputs"]["y"]["sqnr_db"] > 20
    assert "SQNR" in ptq(*arguments).out


def test_verify_exits_with_1_where_integers_differ(ptq, model, data):
    assert ptq("quantize", model, "--data", data, "-o", "q.onnx").code == 0
    arguments = ["verify", "q.onnx", "--data", data, "--arithmetic", "litert"]
    document = json.loads(ptq(*arguments, "--json", "-").out)
    result = ptq(*arguments)
    assert document["equal"] == (result.code == 0)
    assert result.code == int(any(t["differing"] for t in document["tensors"]))
    assert ("; first: " in result.out) == (result.code == 1)


def test_verify_without_optimizations_explains_and_does_not_fail(ptq, model, data):
    assert ptq("quantize", model, "--data", data, "-o", "q.onnx").code == 0
    arguments = ["verify", "q.onnx", "--data", data, "--no-optimizations", "--json", "-"]
    result = ptq(*arguments)
    document = json.loads(result.out)
    assert result.code == 0
    assert document["passed"]
    assert not document["optimized"]
    assert set(document["explanations"]) == {
        t["op"] for t in document["tensors"] if t["differing_locally"]
    }


def test_verify_reports_other_processors_and_the_remedies(ptq, model, data):
    risks = {}
    for weights in ("s8", "reduced", "u8"):
        name = f"{weights}.onnx"
        made = ptq("quantize", model, "--data", data, "-o", name, "--weights", weights)
        assert ("x86 processors without VNNI" in made.out) == (weights == "s8")
        result = ptq("verify", name, "--data", data, "--json", "-")
        assert result.code == 0
        risks[weights] = json.loads(result.out)["portability"]
    assert risks["s8"]["saturable"]
    assert len(risks["s8"]["remedies"]) == 3
    for weights in ("reduced", "u8"):
        assert risks[weights]["saturable"] == risks[weights]["remedies"] == []
    text = ptq("verify", "s8.onnx", "--data", data).out
    assert "session.x64quantprecision=1" in text
    assert "--weights u8" in text
    assert "processors" not in ptq("verify", "s8.onnx", "--data", data, "--no-portability").out


def test_ops_prints_the_table_for_people_and_for_machines(ptq):
    rows = json.loads(ptq("ops", "--json", "-").out)
    assert [row["op"] for row in rows][:2] == ["Conv", "ConvTranspose"]
    text = ptq("ops")
    assert text.code == 0
    assert all(row["op"] in text.out for row in rows)


def test_the_operator_table_groups_operators_that_are_treated_alike(ptq):
    rows = json.loads(ptq("ops", "--json", "-").out)
    lines = ptq("ops").out.splitlines()
    assert len(lines) < 3 * len(rows)
    assert next(line for line in lines if line.startswith(" Celu ·")).count("activation") == 0


def test_bad_samples_are_skipped_on_demand_and_named(ptq, model, folder):
    samples = folder / "samples"
    samples.mkdir()
    for index in range(3):
        np.savez(samples / f"{index}.npz", x=np.full((1, 3, 8, 8), index, np.float32))
    (samples / "3.npz").write_text("no archive")
    assert ptq("quantize", model, "--data", samples).code == 1
    result = ptq("quantize", model, "--data", samples, "--skip-bad-samples")
    assert result.code == 0
    assert "skipped 1 bad sample; first: " in " ".join(result.out.split())
    assert "3.npz" in result.out


def test_what_statistics_alone_leave_out_is_said_and_data_bring_it_back(ptq, model, data):
    made = ptq("calibrate", model, "--data", data, "-o", "s.npz")
    said = " ".join(made.out.split())
    assert (
        "Without --data, ptq quantize --stats leaves out second-order weight rounding, error compensation, "
        "comparison of range methods, equalization and outlier splitting. It measures no accuracy. Calibrate with "
        "--keep-samples to have them."
    ) in said
    kept = ptq("calibrate", model, "--data", data, "--keep-samples", "5", "-o", "k.npz")
    assert "5 samples" in kept.out
    assert "are kept in the file" in " ".join(kept.out.split())
    enough = ptq("quantize", model, "--stats", "k.npz", "-o", "k.onnx")
    assert "decided on 5 samples that the statistics keep" in " ".join(enough.out.split())
    note = "without calibration samples: no second-order weight rounding, no error compensation, no comparison"
    alone = ptq("quantize", model, "--stats", "s.npz", "-o", "a.onnx")
    assert note in " ".join(alone.out.split())
    plain = ("--rounding", "nearest", "--method", "minmax", "-o", "b.onnx")
    assert "without calibration" not in ptq("quantize", model, "--stats", "s.npz", *plain).out
    both = ptq("quantize", model, "--stats", "s.npz", "--data", data, "-o", "c.onnx")
    assert "without calibration samples" not in " ".join(both.out.split())
    assert "weight rounding: " in both.out


def test_inspect_gives_the_reason_of_the_report_for_a_node_left_float(ptq, model, data):
    given = (
        "quantize",
        model,
        "--data",
        data,
        "--skip",
        "conv",
        "--json",
        "r.json",
        "-o",
        "q.onnx",
    )
    assert ptq(*given).code == 0
    report = json.loads(Path("r.json").read_text())
    made = json.loads(ptq("inspect", "q.onnx", "--json", "-").out)
    reasons = {row["name"]: row["why"] for row in report["nodes"] if row["fate"] == "float"}
    assert reasons
    found = {row["name"]: row["why"] for row in made["nodes"] if row["fate"] == "float"}
    assert {name: why for name, why in found.items() if name in reasons} == reasons
    before = json.loads(ptq("inspect", model, "--skip", "conv", "--json", "-").out)
    listed = {row["name"]: row["why"] for row in before["nodes"] if row["fate"] == "float"}
    assert listed == reasons


def test_without_integers_the_next_command_is_no_verification(ptq, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(build_network("y = Sin(x)", {"x": ("n", 4)}), "sin.onnx")
    np.save("x.npy", gaussian_array(8, 4))
    text = ptq("quantize", "sin.onnx", "--data", "x.npy", "-o", "q.onnx", "--threads", "1").out
    assert "0 of 1 nodes in integers" in text
    assert text.rstrip().endswith("Next: ptq inspect q.onnx")
    assert "small layers" not in text
    assert ptq("inspect", "q.onnx").code == 0
