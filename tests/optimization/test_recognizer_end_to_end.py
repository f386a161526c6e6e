"""A recognizer with labelled texts, from images to exact lines with their interval."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from command_line import call, report, say
from line_reader import LETTERS, make_reader, write_lines

import ptq
from ptq.core.errors import UsageError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("lines")
    write_lines(place, 80, seed=3)
    onnx.save(make_reader(), place / "reader.onnx")
    onnx.save(make_reader(listed=False), place / "unlisted.onnx")
    (place / "letters.txt").write_text("\n".join(LETTERS))
    return place


OPTIONS = {"preprocess": ptq.Preprocess(mean=(0.5,), std=(0.157,)), "threads": 1}


@pytest.fixture(scope="module")
def result(folder: Path) -> ptq.Result:
    made = ptq.quantize(
        folder / "reader.onnx", folder / "images", transcripts=folder / "texts.csv", force=True,
        effort="fast", **OPTIONS,
    )  # fmt: skip
    made.save(folder / "reader.int8.onnx")
    return made


def test_quantize_measures_exact_lines_on_the_held_out_samples(result: ptq.Result) -> None:
    evaluation = result.report.evaluation
    assert evaluation is not None
    before, after = (evaluation.forms[name] for name in ("float", "int8"))
    names = [figure.name for figure in after.figures]
    assert names[:2] == [figure.name for figure in before.figures]
    assert names[:2] == ["exact lines", "character error rate"]
    assert 0.5 < before.figures[0].value < 1
    assert after.drop is not None
    assert after.drop.metric == "exact lines"
    assert after.drop.samples == evaluation.samples == 16
    lost = before.figures[0].value - after.figures[0].value
    assert after.drop.points == pytest.approx(100 * lost)
    assert after.drop.lo < after.drop.points < after.drop.hi


def test_evaluate_reads_labels_in_order_and_the_characters_of_a_file(
    result: ptq.Result, folder: Path
) -> None:
    assert result.graph is not None
    found = ptq.evaluate(
        folder / "reader.int8.onnx", folder / "images", against=folder / "unlisted.onnx",
        transcripts=folder / "texts.txt", alphabet=folder / "letters.txt", **OPTIONS,
    )  # fmt: skip
    assert found.forms["int8"].drop is not None
    assert found.forms["int8"].drop.samples == 80
    assert 0.8 < found.forms["float"].figures[0].value < 1
    assert found.forms["int8"].figures[1].value < 0.2


def test_characters_that_nothing_reads_are_refused(result: ptq.Result, folder: Path) -> None:
    letters, model = folder / "letters.txt", folder / "reader.int8.onnx"
    with pytest.raises(UsageError, match="`alphabet` has no effect without `transcripts` or"):
        ptq.evaluate(model, folder / "images", alphabet=letters, **OPTIONS)
    found = ptq.evaluate(
        model, folder / "images", against=folder / "unlisted.onnx", alphabet=letters, **OPTIONS
    )
    assert found.samples == 80


def test_arrays_take_labels_in_order(folder: Path, tmp_path: Path) -> None:
    names = sorted((folder / "images").iterdir())
    opened = ptq.open_samples(
        folder / "images", [ptq_spec(folder)], preprocess=OPTIONS["preprocess"]
    )
    np.savez(tmp_path / "x.npz", x=np.concatenate([sample.feed["x"] for sample in opened]))
    model = folder / "reader.onnx"
    texts = folder / "texts.txt"
    of_arrays = ptq.evaluate(model, tmp_path / "x.npz", transcripts=texts, threads=1)
    of_images = ptq.evaluate(model, folder / "images", transcripts=texts, **OPTIONS)
    assert len(names) == of_arrays.samples
    assert of_arrays.forms["float"].figures == of_images.forms["float"].figures


def ptq_spec(folder: Path) -> object:
    from ptq.data.splits import list_input_specs
    from ptq.model.graph import Graph

    return list_input_specs(Graph.load(folder / "reader.onnx"))[0]


def test_compare_measures_exact_lines_too(result: ptq.Result, folder: Path) -> None:
    assert result.graph is not None
    found = ptq.compare(
        folder / "reader.onnx", folder / "reader.int8.onnx", folder / "images",
        transcripts=folder / "texts.csv", max_drop=20, **OPTIONS,
    )  # fmt: skip
    assert found.drop.metric == "exact lines"
    assert found.budget is not None
    assert found.budget.verdict == "held"


def test_the_first_line_says_the_exact_lines_of_both(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = (
        "quantize", folder / "reader.onnx", "--data", folder / "images", "--transcripts",
        folder / "texts.csv", "--mean", 0.5, "--std", 0.157, "--threads", 1, "--effort", "fast",
        "--force",
    )  # fmt: skip
    text = " ".join(say(*arguments).split())
    assert "exact lines: no significant change (" in text
    assert "character error rate" in text
    form = report(*arguments)["evaluation"]["forms"]["int8"]
    assert form["drop"]["metric"] == "exact lines"
    assert form["figures"][0]["name"] == "exact lines"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": "detect"}, "`transcripts` are labels of task ctc, not of task detect"),
        ({"metric": lambda *_: [1.0]}, "a metric measures in place of `transcripts`"),
        ({"boxes": "labels"}, "give `boxes` or `transcripts`"),
    ],
)
def test_labels_that_contradict_other_options_are_refused(
    folder: Path, options: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        ptq.quantize(
            folder / "reader.onnx", folder / "images", transcripts=folder / "texts.csv", **options
        )  # type: ignore[call-overload]


def test_a_model_that_lists_no_characters_asks_for_them(folder: Path) -> None:
    code, message = call(
        "evaluate", folder / "unlisted.onnx", "--data", folder / "images", "--transcripts",
        folder / "texts.csv", "--mean", 0.5, "--std", 0.157,
    )  # fmt: skip
    assert code == 2
    assert "give a file with one character on each line" in " ".join(message.split())
