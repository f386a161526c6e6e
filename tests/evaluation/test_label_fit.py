"""Detectors that number classes, order corners or measure boxes otherwise than the labels; and none that fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ptq.core.errors import DataError
from ptq.data import Sample
from ptq.data.labels.labelled_boxes import BoxLabels, ClassNumbers, list_boxes
from ptq.evaluation.budget import check_budget
from ptq.evaluation.drop import TaskChoice
from ptq.evaluation.evaluate import evaluate_engines
from ptq.evaluation.measurements import Evaluation
from ptq.evaluation.tasks.detect import DetectTask
from ptq.evaluation.tasks.request import recognize_task
from ptq.evaluation.tasks.task import Example, TaskLabels, TaskRequest

Array = np.ndarray[Any, Any]
IMAGE = {"images": np.zeros((1, 3, 100, 200), np.float32)}
RNG = np.random.default_rng(11)
WAYS = (
    ClassNumbers("0, 1, …", (0, 1, 2)),
    ClassNumbers("the ids", (1, 3, 7)),
    ClassNumbers("1, 2, …", (1, 2, 3)),
)
NEAR = RNG.uniform(0, 60, (8, 3, 2)) * (2, 1)
CORNERS = np.concatenate([NEAR, NEAR + RNG.uniform(10, 30, (8, 3, 2))], axis=2)
CLASSES = np.stack([RNG.permutation(3) for _ in CORNERS])
LABELS = BoxLabels(
    {
        str(k): list_boxes(np.concatenate([classes[:, None], corners], axis=1))
        for k, (corners, classes) in enumerate(zip(CORNERS, CLASSES, strict=True))
    },
    WAYS,
)


def spell(corners: Array, classes: Array) -> dict[str, Array]:
    """Outputs in the manner of SSD: a padding row follows the boxes of an image."""
    rows = np.concatenate([corners, np.zeros((1, 4))])
    return {
        "boxes": rows[None].astype(np.float32),
        "scores": np.array([[*[0.9] * len(classes), 0]], np.float32),
        "classes": np.array([[*classes, 0]], np.float32),
    }


def recognize(
    outputs: list[dict[str, Array]], labels: BoxLabels = LABELS
) -> tuple[DetectTask, TaskChoice]:
    examples = [Example(IMAGE, one, str(k)) for k, one in enumerate(outputs)]
    task, choice = recognize_task(TaskRequest(None, {}, TaskLabels(boxes=labels)), examples)
    assert isinstance(task, DetectTask)
    return task, choice


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rows_first", [False, True])
@pytest.mark.parametrize("shares", [False, True])
def test_boxes_and_classes_of_all_ways_are_those_of_the_labels(
    way: ClassNumbers, rows_first: bool, shares: bool
) -> None:
    corners = CORNERS / (200, 100, 200, 100) if shares else CORNERS
    corners = corners[:, :, [1, 0, 3, 2]] if rows_first else corners
    outputs = [
        spell(one, np.array(way.numbers)[classes])
        for one, classes in zip(corners, CLASSES, strict=True)
    ]
    task, choice = recognize(outputs)
    for k, one in enumerate(outputs):
        found = task.head.decode(one, IMAGE)
        np.testing.assert_allclose(found.corners, CORNERS[k], rtol=1e-5)
        assert found.classes.tolist() == task.labels[str(k)].classes.tolist()
    assert ("shares of the image" in choice.why) == shares
    assert ("top, left, bottom, right" in choice.why) == rows_first
    assert (f"if the numbers of its classes are {way.name}" in choice.why) == (way != WAYS[0])


def test_a_few_boxes_do_not_show_another_way() -> None:
    moved = [spell(CORNERS[0], CLASSES[0] + 1), *[spell(CORNERS[0][:0], CLASSES[0][:0])] * 2]
    task, choice = recognize(moved)
    assert task.labels["0"].classes.tolist() == CLASSES[0].tolist()
    assert "numbers of its classes" not in choice.why


def test_notes_on_labels_stand_in_the_line_of_the_task() -> None:
    outputs = [spell(*pair) for pair in zip(CORNERS, CLASSES, strict=True)]
    assert recognize(outputs, replace(LABELS, notes=("3 are left out",)))[1].why.endswith(
        "scores; 3 are left out"
    )


def test_a_first_sample_without_boxes_shows_no_other_task() -> None:
    rows = np.concatenate([CORNERS[0], np.full((3, 1), 0.9), CLASSES[0][:, None]], axis=1)
    tables = [np.zeros((0, 6)), rows]
    task, choice = recognize([{"rows": table.astype(np.float32)} for table in tables])
    assert (task.output, choice.name) == ("rows", "detect")


def evaluate(
    outputs: list[dict[str, Array]], *, alone: bool = False, labels: BoxLabels = LABELS
) -> Evaluation:
    names = list(outputs[0])
    samples = [Sample(str(k), {"images": IMAGE["images"] + k}) for k in range(len(outputs))]

    def run(feed: Mapping[str, Array]) -> list[Array]:
        return [outputs[int(feed["images"].max())][name] for name in names]

    others = {} if alone else {"int8": run}
    request = TaskRequest(None, {}, TaskLabels(boxes=labels))
    return evaluate_engines(run, others, samples, names, task=request)


def test_an_equal_model_leaves_a_budget_of_map_open_as_far_as_its_images_do() -> None:
    outputs = [spell(*pair) for pair in zip(CORNERS, CLASSES, strict=True)]
    result = evaluate(outputs)
    drop = result.forms["int8"].drop
    assert drop is not None
    assert drop.points == 0
    assert drop.lo < -30
    assert drop.hi > 30
    assert check_budget(drop, 1).verdict == "undecided"
    for figure in result.forms["int8"].figures:
        lo, hi = figure.interval
        assert hi - lo > 0.3, figure
    assert not result.suspects


@pytest.mark.parametrize("empty", [0, 12])
def test_images_with_one_object_each_show_the_numbers_of_classes_and_the_unit_of_boxes(
    empty: int,
) -> None:
    rows = [k % 8 for k in range(40)]
    outputs = [
        spell(CORNERS[k][:1] / (200, 100, 200, 100), CLASSES[k][:1] + 1)
        if n % 3 and n >= empty
        else spell(np.zeros((1, 4)), np.zeros(1))
        for n, k in enumerate(rows)
    ]
    for one in outputs:
        one["scores"][(one["boxes"] == 0).all(axis=2)] = 0
    first = LABELS.images["0"].classes < 0
    first[0] = True
    labels = BoxLabels(
        {str(n): LABELS.images[str(k)].take(first) for n, k in enumerate(rows)}, WAYS
    )
    result = evaluate(outputs, labels=labels)
    assert result.task is not None
    assert result.task.why.endswith("if the numbers of its classes are 1, 2, …")
    assert "shares of the image" in result.task.why
    assert result.forms["float"].figures[0].value > 0.3


def test_samples_that_the_labels_do_not_name_have_no_map() -> None:
    outputs = [spell(*pair) for pair in zip(CORNERS, CLASSES, strict=True)]
    only = BoxLabels({"9": LABELS.images["0"]}, WAYS)
    meter = recognize(outputs, only)[0].start()
    meter.add(Example(IMAGE, outputs[0], "0"), outputs[0])
    with pytest.raises(DataError, match="no labelled box belongs to a sample that accuracy is"):
        meter.measure_drop()


@pytest.mark.parametrize("alone", [False, True])
def test_labels_that_the_float_model_never_finds_decide_nothing(alone: bool) -> None:
    outputs = [
        spell(corners + 300, classes) for corners, classes in zip(CORNERS, CLASSES, strict=True)
    ]
    result = evaluate(outputs, alone=alone)
    (suspect,) = result.suspects
    assert suspect.serious
    assert str(suspect).startswith("labels: mAP50-95 of the reference is 0.00 %, so that no loss")
    if not alone:
        drop = result.forms["int8"].drop
        assert drop is not None
        budget = check_budget(drop, 99.0)
        assert (budget.verdict, budget.needed) == ("undecided", None)
        assert budget.sentence.endswith("no loss can show: labels do not match its outputs")
