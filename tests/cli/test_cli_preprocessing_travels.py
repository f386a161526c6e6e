"""S1 and S8: the preprocessing of the calibration travels with statistics, plan and quantized model.

The oracle is a classifier that gets many images wrong under any other preprocessing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from brightness import OPTIONS, brightness_model, write_brightness_images
from command_line import FAST, call, metadata, next_command, report, say, top1

import ptq
from ptq.core.plan import Plan
from ptq.model.graph import Graph
from ptq.model.metadata import PREPROCESS, PROVENANCE
from ptq.observers.calibration_file import load

RECORD = {
    "channels": "RGB",
    "interpolation": "bilinear",
    "layout": "NCHW",
    "mean": [0.2],
    "scale": 1 / 255,
    "size": [8, 8],
    "source": "images",
    "std": [0.25],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A current folder with a float model, images, and the model quantized with and without metadata."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("travel")
        patch.chdir(folder)
        patch.setenv("COLUMNS", "80")
        model = brightness_model()
        onnx.helper.set_model_props(model, {"license": "MIT"})
        onnx.save(model, "model.onnx")
        write_brightness_images(folder / "some of my images")
        images = ["--data", "some of my images", *OPTIONS, *FAST]
        for name, more in (("full", []), ("bare", ["--no-metadata"])):
            command = ["quantize", "model.onnx", *images, *more, "-o", f"{name}.onnx"]
            (folder / f"{name}.txt").write_text(say(*command, "--save-plan", f"{name}.json"))
        yield folder


@pytest.mark.parametrize("name", ["full", "bare"])
def test_s1_the_next_command_runs_as_printed_and_keeps_the_accuracy(folder: Path, name: str):
    verb, *arguments = next_command((folder / f"{name}.txt").read_text())
    assert verb == "verify"
    verified = say(verb, *arguments)
    assert "are equal" in verified
    assert "− (0.2), ÷ (0.25)" in verified
    assert top1(report("evaluate", *arguments)) == 1


def test_s1_evaluate_uses_what_the_model_records_and_says_so(folder: Path):
    printed = say("evaluate", "full.onnx", "--data", "some of my images")
    assert "− (0.2), ÷ (0.25), NCHW (as recorded by the model)" in " ".join(printed.split())
    document = report("evaluate", "full.onnx", "--data", "some of my images")
    assert top1(document) == 1
    assert document["applied_preprocess"] == {
        "record": RECORD,
        "recorded_by": "the model",
        "difference": "",
    }
    assert top1(report("evaluate", "bare.onnx", "--data", "some of my images")) < 0.8


def test_s1_an_option_that_contradicts_the_record_wins_and_is_named(folder: Path):
    arguments = ["full.onnx", "--data", "some of my images", "--mean", 0.5]
    text = "preprocessing differs from the model: mean 0.5 instead of 0.2"
    for verb in ("evaluate", "verify"):
        lines = [row.strip() for row in say(verb, *arguments).splitlines() if " differs " in row]
        assert lines == [text if verb == "evaluate" else f"warning: {text}"]
    assert report("evaluate", *arguments)["warnings"].count(text) == 1
    assert top1(report("evaluate", *arguments)) < 0.8
    # the others stay as recorded
    record = report("evaluate", *arguments)["applied_preprocess"]["record"]
    assert record == RECORD | {"mean": [0.5]}


def test_s1_a_comparison_names_an_option_that_contradicts_the_record(folder: Path):
    arguments = ["compare", "model.onnx", "full.onnx", "--data", "some of my images"]
    assert "preprocessing differs" not in say(*arguments)
    printed = " ".join(say(*arguments, "--mean", 0.5).split())
    assert printed.startswith(
        "Warnings samples: preprocessing differs from the model: mean 0.5 instead of 0.2; "
        "leave the option out, or quantize with it"
    )


def test_models_of_different_preprocessing_are_not_compared_in_silence(folder: Path) -> None:
    images = ["--data", "some of my images"]
    say("quantize", "model.onnx", *images, *FAST, "--mean", 0.5, "--std", 0.25, "-o", "other.onnx")
    difference = "preprocessing differs from {}: mean 0.5 instead of 0.2"
    for verb, name in (
        (["compare", "full.onnx", "other.onnx"], "the old model"),
        (["evaluate", "other.onnx", "--against", "full.onnx"], "the reference model"),
    ):
        document = report(*verb, *images)
        first = document["suspects"][0]
        assert first["serious"]
        assert first["what"] == f"both models get the same samples, but {difference.format(name)}"
        assert first["where"] == name
    assert "both models get" not in say("compare", "full.onnx", "full.onnx", *images)


def test_arrays_differ_from_no_record_of_images(folder: Path) -> None:
    arrays = np.random.default_rng(0).normal(size=(24, 3, 8, 8)).astype(np.float32)
    result = ptq.compare("full.onnx", "full.onnx", {"x": arrays}, threads=1)
    assert not [each for each in result.suspects if "both models get" in each.what]
    with_arrays = ptq.quantize("model.onnx", {"x": arrays}, effort="fast", force=True, threads=1)
    with_arrays.save("arrays.onnx")
    document = report("compare", "full.onnx", "arrays.onnx", "--data", "some of my images")
    assert document["old_accuracy"]["top1"] == 1
    assert "both models get" not in json.dumps(document["suspects"])


def test_a_record_of_either_model_prepares_the_samples_of_both(folder: Path) -> None:
    images = ["--data", "some of my images"]
    document = report("evaluate", "model.onnx", "--against", "full.onnx", *images)
    assert document["applied_preprocess"]["record"] == RECORD
    assert document["applied_preprocess"]["recorded_by"] == "the reference model"
    compared = report("compare", "full.onnx", "model.onnx", *images)
    assert compared["old_accuracy"]["top1"] == compared["new_accuracy"]["top1"] == 1


def test_a_quantized_model_alone_is_called_int8_and_not_float(folder: Path) -> None:
    arguments = ["evaluate", "full.onnx", "--data", "some of my images"]
    assert list(report(*arguments)["forms"]) == ["int8"]
    assert "int8 in ONNX Runtime" in say(*arguments)
    result = ptq.evaluate("full.onnx", "some of my images", engine="integer", threads=1)
    assert list(result.forms) == ["integers"]


def test_b8_a_comparison_advises_to_leave_out_only_an_option_that_was_given(folder: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(40, 3, 8, 8)).astype(np.float32)
    result = ptq.compare("model.onnx", "full.onnx", {"x": rows}, threads=1)
    [found] = [s for s in result.suspects if s.where == "samples"]
    assert found.what.endswith("arrays, fed as given, instead of images")
    assert found.advice == "prepare these samples as the new model records"
    assert not found.serious


def test_the_reports_of_each_format_say_how_images_were_prepared(folder: Path) -> None:
    way = ptq.Preprocess(mean=(0.2,), std=(0.25,))
    result = ptq.quantize("model.onnx", "some of my images", preprocess=way, effort="fast")
    [line] = result.report.describe_preprocessing()
    assert line == "images: RGB, resized to 8×8, bilinear, × 1/255, − (0.2), ÷ (0.25), NCHW"
    markdown = result.report.to_markdown().replace("\\", "")
    for text in (result.report.to_html(), markdown, result.report._repr_html_()):
        assert line in text


def test_the_metadata_keep_what_the_float_model_has(folder: Path):
    found = metadata("full.onnx")
    assert set(found) == {"license", PREPROCESS, PROVENANCE}
    assert found["license"] == "MIT"
    assert json.loads(found[PREPROCESS]) == RECORD


def test_without_metadata_the_graph_is_the_same_and_nothing_is_recorded(folder: Path):
    assert metadata("bare.onnx") == {"license": "MIT"}
    full, bare = Graph.load("full.onnx"), Graph.load("bare.onnx")
    assert full.digest() == bare.digest()
    for key in (PREPROCESS, PROVENANCE):
        del full.metadata[key]
    assert full.to_bytes() == Path("bare.onnx").read_bytes()


def test_the_same_input_gives_the_same_bytes_under_other_names(folder: Path):
    Path("moved").mkdir()
    Path("moved/other.onnx").write_bytes(Path("model.onnx").read_bytes())
    write_brightness_images(Path("moved/pictures"))
    say("quantize", "moved/other.onnx", "--data", "moved/pictures", *OPTIONS, *FAST, "-o", "o.onnx")
    assert Path("o.onnx").read_bytes() == Path("full.onnx").read_bytes()


def test_inspect_of_a_quantized_model_reads_everything_back(folder: Path):
    printed = " ".join(say("inspect", "full.onnx").split())
    for text in (
        "− (0.2), ÷ (0.25), NCHW (as recorded by the model)",
        "Made by ptq",
        "method minmax",
        "onnxruntime: ",
        " samples): top-1 ",
        " points (95 % CI ",
    ):
        assert text in printed
    assert "hi " not in printed
    document = report("inspect", "full.onnx")
    assert document["quantized"] is True
    assert document["preprocess"] == RECORD
    made = document["provenance"]
    assert made["digests"]["float_model"] == report("inspect", "model.onnx")["digest"]
    assert {row["fate"] for row in document["nodes"] if row["op"] == "Conv"} == {"int8"}
    bare = report("inspect", "bare.onnx")
    assert (bare["preprocess"], bare["provenance"]) == (None, None)


def test_lint_shows_what_the_model_records(folder: Path):
    _, printed = call("lint", "full.onnx")
    assert "(as recorded by the model)" in " ".join(printed.split())


def test_lint_says_which_rules_it_checks_and_what_the_model_was_made_for(folder: Path):
    made_for = "the model was quantized for ort; these errors matter only where the rules of litert"
    printed = " ".join(call("lint", "full.onnx")[1].split())
    assert printed.startswith("full.onnx, rules of litert: ")
    assert made_for in printed
    bare = " ".join(call("lint", "bare.onnx")[1].split())
    assert "rules of litert: " in bare
    assert "was quantized for" not in bare


def test_lint_checks_a_model_whose_provenance_is_damaged(folder: Path):
    graph = Graph.load("full.onnx")
    graph.metadata[PROVENANCE] = "{"
    Path("damaged.onnx").write_bytes(graph.to_bytes())
    printed = " ".join(call("lint", "damaged.onnx")[1].split())
    assert printed.startswith("damaged.onnx, rules of litert: ")
    assert "was quantized for" not in printed


def test_sensitivity_uses_what_the_metadata_of_the_float_model_record(folder: Path):
    graph = Graph.load("model.onnx")
    graph.metadata[PREPROCESS] = json.dumps(RECORD)
    Path("recorded.onnx").write_bytes(graph.to_bytes())
    arguments = ["recorded.onnx", "--data", "some of my images", "--measure", 0, "--threads", 1]
    applied = report("sensitivity", *arguments, "--method", "minmax", "--no-equalize")
    assert applied["applied_preprocess"]["record"] == RECORD


@pytest.fixture(scope="module")
def stats(folder: Path) -> str:
    """Statistics of the images."""
    data = ["--data", "some of my images", *OPTIONS, "--threads", 1]
    say("calibrate", "model.onnx", *data, "-o", "stats.npz")
    return "stats.npz"


def test_s8_statistics_carry_the_preprocessing_to_the_evaluation_and_the_model(stats: str):
    assert load(Path(stats)).preprocess == RECORD
    arguments = ["model.onnx", "--stats", stats, "--eval", "some of my images", *FAST]
    document = report("quantize", *arguments, "-o", "s.onnx")
    assert document["evaluation"]["forms"]["float"]["accuracy"]["top1"] == 1
    assert document["preprocessing"]["mean"] == [0.2]
    assert not [s for s in document["suspects"] if "differs" in s["what"]]
    assert json.loads(metadata("s.onnx")[PREPROCESS]) == RECORD


def test_s8_an_evaluation_of_other_preprocessing_is_named(stats: str):
    arguments = ["model.onnx", "--stats", stats, "--eval", "some of my images", *FAST]
    document = report("quantize", *arguments, "--mean", 0.5, "--std", 0.5, "-o", "s.onnx")
    [found] = [s for s in document["suspects"] if "differs" in s["what"]]
    assert found["where"] == "evaluation samples"
    assert found["what"] == (
        "preprocessing differs from the statistics: mean 0.5 instead of 0.2, std 0.5 instead of 0.25"
    )
    # the report names the preprocessing under which the ranges were chosen
    assert document["preprocessing"]["mean"] == [0.2]


def test_s8_shards_of_different_preprocessing_do_not_merge(stats: str):
    other = ["--data", "some of my images", "--mean", 0.5, "--threads", 1]
    code, printed = call("calibrate", "model.onnx", *other, "--merge", stats, "-o", "m.npz")
    assert code == 1
    assert "not prepared alike: mean 0.5 instead of 0.2, std 1 instead of 0.25" in printed
    say("calibrate", "model.onnx", *other, "-o", "other.npz")
    merge = ["--merge", stats, "--merge", "other.npz"]
    code, printed = call("calibrate", "model.onnx", *merge, "-o", "m.npz")
    assert code == 1
    assert "not prepared alike" in printed
    assert not Path("m.npz").exists()


def test_the_command_after_calibrate_runs_as_printed(stats: str):
    printed = say("calibrate", "model.onnx", "--merge", stats, "-o", "again.npz")
    command = next_command(printed)
    assert command == ["quantize", "model.onnx", "--stats", "again.npz"]
    verb = next_command(say(*command, "-o", "a.onnx", *FAST))
    assert verb == ["inspect", "a.onnx"]
    say(*verb)


def test_a_plan_carries_the_preprocessing_to_the_run_that_applies_it(folder: Path):
    plan = Plan.from_json(Path("full.json").read_text())
    assert plan.preprocess == RECORD
    arguments = ["model.onnx", "--plan", "full.json", "--eval", "some of my images", *FAST]
    document = report("quantize", *arguments, "-o", "p.onnx")
    assert document["evaluation"]["forms"]["float"]["accuracy"]["top1"] == 1
    assert json.loads(metadata("p.onnx")[PREPROCESS]) == RECORD


def test_conversion_keeps_the_records_and_names_the_new_form(folder: Path):
    say("convert", "full.onnx", "--format", "qoperator", "-o", "converted.onnx")
    before, after = metadata("full.onnx"), metadata("converted.onnx")
    assert after[PREPROCESS] == before[PREPROCESS]
    made = json.loads(before[PROVENANCE])
    assert json.loads(after[PROVENANCE]) == {**made, "converted_to": "qoperator"}


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"source": "images", "scale": 1.0, "mean": 0.5}, "images: × 1, − (0.5)"),
        ({"source": "images", "size": 32}, "warning: the preprocessing that the model records"),
        ({"source": "text", "tokenizer_sha256": 5}, "5 is not a SHA-256 of 64 digits"),
    ],
)
def test_inspect_shows_what_a_record_means_or_why_it_cannot_be_used(
    tmp_path: Path, record: dict[str, object], expected: str
) -> None:
    model = brightness_model()
    onnx.helper.set_model_props(model, {PREPROCESS: json.dumps(record)})
    onnx.save(model, tmp_path / "model.onnx")
    assert expected in " ".join(say("inspect", str(tmp_path / "model.onnx")).split())
