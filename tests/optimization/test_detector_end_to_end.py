"""A trained detector with labelled boxes, from images and metadata to mAP with its interval; no option is given."""

from __future__ import annotations

import math
from pathlib import Path

import onnx
import pytest
from command_line import report, say
from shape_detector import CLASSES, add_suppression, train, write_images

import ptq
from ptq.core.errors import DataError, UsageError
from ptq.evaluation.metrics import Fidelity
from ptq.evaluation.presentation.verdict import describe_sqnr, describe_verdict


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("shapes")
    write_images(place, 60, seed=3)
    onnx.save(train(), place / "detector.onnx")
    return place


@pytest.fixture(scope="module")
def result(folder: Path) -> ptq.Result:
    made = ptq.quantize(
        folder / "detector.onnx", folder / "images", effort="fast", force=True, threads=1
    )
    made.save(folder / "detector.int8.onnx")
    return made


def test_images_are_letterboxed_and_boxes_compared_without_any_option(result: ptq.Result) -> None:
    evaluation = result.report.evaluation
    assert evaluation is not None
    assert evaluation.task is not None
    assert (evaluation.task.name, evaluation.task.output) == ("detect", "output0")
    assert result.report.preprocessing["letterbox"] == 114
    drop = evaluation.forms["int8"].drop
    assert drop is not None
    assert drop.metric == "agreement of boxes"
    assert drop.points < 25  # a dozen images
    assert drop.lo <= drop.points <= drop.hi


def test_boxes_and_scores_of_one_concat_do_not_share_a_scale(result: ptq.Result) -> None:
    reason = result.plan.floats["node8"]
    assert reason == "joins boxes and scores, whose range is less than 1/16 of that"
    rows = {row.name: row.sqnr_db for row in result.report.tensors}
    assert rows.get("scores", 99.0) > 30


def test_the_metadata_of_the_exporter_are_kept(result: ptq.Result, folder: Path) -> None:
    before = {
        entry.key: entry.value for entry in onnx.load(folder / "detector.onnx").metadata_props
    }
    after = {entry.key: entry.value for entry in result.model.metadata_props}
    assert before.items() <= after.items()
    assert str(dict(enumerate(CLASSES))) == after["names"]


def test_map_is_measured_with_labels_and_a_paired_interval(
    result: ptq.Result, folder: Path
) -> None:
    assert result.graph is not None
    found = ptq.evaluate(
        folder / "detector.int8.onnx",
        folder / "images",
        against=folder / "detector.onnx",
        boxes=folder / "labels",
        threads=1,
    )
    exact, loose = found.forms["float"].figures
    assert (exact.name, loose.name) == ("mAP50-95", "mAP50")
    assert 0.6 < loose.value < 1
    assert exact.value < loose.value
    for figure in (exact, loose):
        assert figure.interval[0] < figure.value < figure.interval[1]
    int8 = {figure.name: figure.value for figure in found.forms["int8"].figures}
    drop = found.forms["int8"].drop
    assert drop is not None
    assert drop.metric == "mAP50-95"
    assert drop.points == pytest.approx(100 * (exact.value - int8["mAP50-95"]))
    assert drop.lo < drop.points < drop.hi
    assert drop.hi - drop.lo < 100 * (exact.interval[1] - exact.interval[0])  # it is paired
    assert int8["agreement of boxes"] > 0.85


def test_boxes_that_vary_in_number_do_not_make_a_good_detector_unrelated(folder: Path) -> None:
    suppressed = add_suppression(onnx.load(folder / "detector.onnx"))
    onnx.save(suppressed, folder / "suppressed.onnx")
    made = ptq.quantize(suppressed, folder / "images", effort="fast", force=True, threads=1)
    made.save(folder / "suppressed.int8.onnx")
    found = ptq.evaluate(
        folder / "suppressed.int8.onnx", folder / "images", against=folder / "suppressed.onnx", threads=1
    )  # fmt: skip
    fidelity = found.forms["int8"].outputs[found.head]
    assert fidelity.other_shapes > 0
    assert fidelity.sqnr_db == -math.inf
    assert "little in common" not in " ".join(map(str, found.suspects))


def test_compare_measures_map_too(result: ptq.Result, folder: Path) -> None:
    assert result.graph is not None
    models = folder / "detector.onnx", folder / "detector.int8.onnx"
    found = ptq.compare(*models, folder / "images", boxes=folder / "labels", max_drop=20, threads=1)
    assert found.drop.metric == "mAP50-95"
    assert found.budget is not None
    assert found.budget.verdict == "held"


def test_the_command_line_measures_map_of_one_model(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    images, labels = folder / "images", folder / "labels"
    arguments = "--data", images, "--boxes", labels, "--task", "detect", "--threads", 1
    document = report("evaluate", folder / "detector.onnx", *arguments)
    figures = document["forms"]["float"]["figures"]
    assert [figure["name"] for figure in figures] == ["mAP50-95", "mAP50"]
    assert "mAP50 " in say("evaluate", folder / "detector.onnx", *arguments)


def test_boxes_of_samples_that_are_no_images_are_refused(folder: Path) -> None:
    import numpy as np

    arrays = {"images": np.zeros((2, 3, 96, 96), np.float32)}
    with pytest.raises(UsageError, match="`boxes` belong to images; give a folder of images"):
        ptq.evaluate(folder / "detector.onnx", arrays, boxes=folder / "labels")
    with pytest.raises(DataError, match="absent does not exist"):
        ptq.evaluate(folder / "detector.onnx", folder / "images", boxes=folder / "absent")


def test_quantize_measures_map_on_the_held_out_images(folder: Path) -> None:
    made = ptq.quantize(
        folder / "detector.onnx", folder / "images", boxes=folder / "labels", effort="fast",
        force=True, threads=1,
    )  # fmt: skip
    evaluation = made.report.evaluation
    assert evaluation is not None
    before, after = (
        {figure.name: figure.value for figure in evaluation.forms[name].figures}
        for name in ("float", "int8")
    )
    drop = evaluation.forms["int8"].drop
    assert drop is not None
    assert drop.metric == "mAP50-95"
    assert drop.points == pytest.approx(100 * (before["mAP50-95"] - after["mAP50-95"]))
    assert drop.lo < drop.points < drop.hi
    assert "mAP50" in made.report.to_markdown()


def test_a_budget_in_map_is_checked_with_the_labels_of_the_evaluation_images(folder: Path) -> None:
    made = ptq.quantize(
        folder / "detector.onnx", folder / "images", eval_data=folder / "images",
        boxes=folder / "labels", max_drop=30, effort="fast", force=True, threads=1,
    )  # fmt: skip
    assert made.report.budget is not None
    assert made.report.budget.drop.metric == "mAP50-95"
    assert made.report.search is not None
    assert made.report.search.drop.metric == "mAP50-95"


def test_labels_of_boxes_of_another_folder_are_refused_before_any_calibration(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "labels").mkdir()
    with pytest.raises(DataError, match="no box belongs to an image"):
        ptq.quantize(folder / "detector.onnx", folder / "images", boxes=tmp_path / "labels")


def test_rows_of_suppressed_boxes_are_no_answers_of_a_classifier(folder: Path) -> None:
    model = add_suppression(onnx.load(folder / "detector.onnx"))
    report = ptq.quantize(
        model, folder / "images", method="minmax", effort="fast", threads=1
    ).report
    assert report.evaluation is not None
    assert report.evaluation.task is not None
    assert report.evaluation.task.name == "detect"
    fidelity = report.evaluation.forms["int8"].outputs["detections"]
    assert fidelity.agreement is None
    lines = describe_verdict(report)
    assert lines[0].startswith("agreement of boxes: ")
    assert not any("same answer as float" in line for line in lines)
    unlike = Fidelity(-math.inf, 0.5, None, other_shapes=3)
    assert describe_sqnr(unlike).startswith("another shape on 3 samples")
    assert describe_sqnr(Fidelity(-math.inf, 0.5, None)) == "values are infinite"
