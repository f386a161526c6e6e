"""Doubts about measured outputs; engines written by hand are the oracle."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from networks import gaussian_array

from ptq.core.errors import DataError
from ptq.data import Sample
from ptq.evaluation.changed_samples import ChangedSamples
from ptq.evaluation.checks.output_check import diagnose_outputs
from ptq.evaluation.drop import AGREEMENT, ERROR, TOP1
from ptq.evaluation.evaluate import evaluate_engines
from ptq.evaluation.measurements import Evaluation
from ptq.evaluation.tasks.task import TaskRequest

Array = np.ndarray[Any, Any]
COUNT = 20


def evaluate(
    rows: list[Array],
    change: Callable[[Array], Array],
    *,
    labels: list[tuple[int, ...]] | None = None,
    task: TaskRequest | None = None,
) -> Evaluation:
    """The rows as outputs of a float model, and changed ones of another form."""
    given = [()] * len(rows) if labels is None else labels
    samples = [Sample(f"s{k}", {"x": x}, given[k]) for k, x in enumerate(rows)]
    return evaluate_engines(
        lambda feed: [feed["x"]], {"int8": lambda feed: [change(feed["x"])]}, samples, ["y"],
        task=TaskRequest() if task is None else task,
    )  # fmt: skip


def scores(count: int = COUNT, classes: int = 10) -> list[Array]:
    return [gaussian_array(1, classes, seed=k) for k in range(count)]


def words(evaluation: Evaluation) -> str:
    return "; ".join(map(str, diagnose_outputs(evaluation)))


def test_landmarks_are_doubted_where_their_largest_number_changes_in_spite_of_a_small_error() -> (
    None
):
    shape = np.repeat(
        gaussian_array(1, 20, seed=50), 2, axis=1
    )  # each point has a neighbour at its height
    rows = [shape + 0.2 * x for x in scores(classes=40)]
    doubts = words(evaluate(rows, lambda x: np.round(x, 1)))
    assert "% of the scores' energy is the same on all samples, but" in doubts
    assert "may be numbers" in doubts
    assert not words(evaluate(rows, lambda x: np.round(x, 3)))
    assert not words(evaluate(rows, lambda x: np.round(x, 1), task=TaskRequest("none")))
    assert "may be numbers" not in words(evaluate(scores(), lambda x: np.round(x)))


def test_numbers_are_doubted_where_most_largest_ones_change_in_spite_of_a_small_error() -> None:
    flat = [5 + 0.01 * x for x in scores(classes=40)]
    doubts = words(evaluate(flat, lambda x: np.round(x, 1)))
    assert "dB, but 100.00 % of its best classes change: its values may be numbers" in doubts
    labels: list[tuple[int, ...]] = [(int(x.argmax()),) for x in flat]
    assert "numbers" not in words(evaluate(flat, lambda x: np.round(x, 1), labels=labels))
    assert not words(evaluate(flat, lambda x: np.round(x, 4)))


def test_sound_outputs_have_no_doubts() -> None:
    assert words(evaluate(scores(), lambda x: x + 0.01)) == ""


def test_samples_with_nan_in_float_are_counted_and_said_first() -> None:
    rows = [x * np.nan if k < 5 else x for k, x in enumerate(scores())]
    found = evaluate(rows, lambda x: x)
    assert found.undefined == {"y": 5}
    [doubt] = diagnose_outputs(found)
    assert doubt.serious
    assert "NaN on 5 of 20 samples" in str(doubt)


def test_nan_is_no_class_in_top_1_and_agreement_alike() -> None:
    rows = scores(4, 3)
    rows[0][0] = [np.nan, 1, 2]
    rows[1][0] = [np.nan, 5, np.nan]
    rows[2][0] = np.nan
    labels: list[tuple[int, ...]] = [(2,), (1,), (0,), (int(rows[3].argmax()),)]
    found = evaluate(rows, lambda x: x, labels=labels)
    assert found.forms["float"].accuracy is not None
    assert found.forms["float"].accuracy.top1 == 3 / 4
    assert evaluate(rows, np.nan_to_num).forms["int8"].outputs["y"].agreement == 3 / 4


def test_numbers_that_are_taken_for_scores_are_doubted_and_task_none_measures_them() -> None:
    rows = [np.abs(x) + np.arange(10) for x in scores()]
    found = evaluate(rows, lambda x: 0.8 * x)  # 14 dB, and the last one stays the largest
    assert found.forms["int8"].drop is not None
    assert (found.forms["int8"].drop.metric, found.forms["int8"].drop.points) == (AGREEMENT, 0)
    assert "SQNR is 14.0 dB, but 0.00 % of its best classes change" in words(found)
    assert "give task none" in words(found)
    none = evaluate(rows, lambda x: 0.8 * x, task=TaskRequest("none"), labels=[(1,)] * COUNT)
    drop = none.forms["int8"].drop
    assert drop is not None
    assert (drop.metric, drop.points) == (ERROR, pytest.approx(4))
    assert none.task is not None
    assert (none.task.name, none.task.asked) == ("none", True)
    assert none.forms["int8"].outputs["y"].agreement is None
    assert none.forms["float"].accuracy is None
    assert words(none) == ""


@pytest.mark.parametrize("change", [lambda x: x[:, ::-1], lambda x: x + 0.01])
def test_numbers_are_not_doubted_where_decisions_or_values_tell_the_same(
    change: Callable[[Array], Array],
) -> None:
    assert words(evaluate(scores(), change)) == ""


def test_logits_whose_best_class_varies_are_decisions_whatever_their_sqnr() -> None:
    assert words(evaluate(scores(), lambda x: 0.8 * x)) == ""


@pytest.mark.parametrize("offset", [0, 9])
def test_maps_are_doubted_where_one_class_is_the_best_of_nearly_all_pixels(offset: int) -> None:
    rows = [np.repeat(x.reshape(1, 5, 2, 1), 8, axis=3).repeat(8, axis=2) for x in scores()]
    for row in rows:
        row[:, 0] += offset
        row[:, 1, :1, :1] += 50  # one pixel
    found = evaluate(rows, lambda x: 0.8 * x)
    assert found.task is not None
    assert found.task.name == "segment"
    assert ("may be numbers" in words(found)) is bool(offset)


def test_probabilities_are_decisions_whatever_their_sqnr() -> None:
    rows = [np.exp(x) / np.exp(x).sum() for x in scores()]
    assert words(evaluate(rows, lambda x: 0.8 * x)) == ""


def test_loud_samples_that_hide_the_others_are_named_with_both_figures() -> None:
    loud = [x.reshape(1, 2, 5) * (100 if k < 2 else 1) for k, x in enumerate(scores())]
    found = evaluate(loud, lambda x: x + 1)
    fidelity = found.forms["int8"].outputs["y"]
    assert fidelity.median_sqnr_db is not None
    alone = [10 * math.log10(float((x**2).sum()) / x.size) for x in loud]
    assert fidelity.median_sqnr_db == pytest.approx(np.median(alone), abs=1e-4)
    assert f"{fidelity.sqnr_db:.1f} dB over all samples" in words(found)
    assert f"{fidelity.median_sqnr_db:.1f} dB on the median sample" in words(found)
    assert words(evaluate([x.reshape(1, 2, 5) for x in scores()], lambda x: x + 1)) == ""


def test_samples_without_signal_and_few_samples_hide_nothing() -> None:
    rows = [x.reshape(1, 2, 5) * (k % 2) for k, x in enumerate(scores())]
    assert words(evaluate(rows, lambda x: x + 0.01)) == ""
    two = evaluate([rows[1], 100 * rows[3]], lambda x: x + 1)
    assert words(two) == ""
    assert two.forms["int8"].outputs["y"].median_sqnr_db is None


@pytest.mark.parametrize(
    ("squash", "threshold"), [(lambda x: x, 0.0), (lambda x: 1 / (1 + np.exp(-x)), 0.5)]
)
def test_one_value_is_two_classes_where_labels_are_0_and_1(
    squash: Callable[[Array], Array], threshold: float
) -> None:
    logits = [gaussian_array(1, 1, seed=k) for k in range(COUNT)]
    labels: list[tuple[int, ...]] = [(int(x.item() > 0),) for x in logits]
    labels[3] = (1 - labels[3][0],)
    rows = [np.asarray(squash(3 * x)) for x in logits]
    found = evaluate(rows, lambda x: x - 0.4, labels=labels)
    moved = [
        int(x.item() - 0.4 > threshold) == label[0] for x, label in zip(rows, labels, strict=True)
    ]
    float_, int8 = found.forms["float"], found.forms["int8"]
    assert float_.accuracy is not None
    assert int8.accuracy is not None
    assert int8.drop is not None
    assert (float_.accuracy.top1, int8.accuracy.top1) == (19 / 20, sum(moved) / 20)
    assert int8.drop.metric == TOP1
    asked = evaluate(rows, lambda x: x - 0.4, task=TaskRequest("classify")).forms["int8"].drop
    assert asked is not None
    changes = sum((x.item() > threshold) != (x.item() - 0.4 > threshold) for x in rows)
    assert (asked.metric, asked.lost) == (AGREEMENT, changes)
    classes = TaskRequest("classify")
    with pytest.raises(DataError, match=r"^s9: label 2 is not a class .* 0 to 1"):
        evaluate(rows, lambda x: x, labels=[*labels[:9], (2,), *labels[10:]], task=classes)


def test_all_samples_decide_whether_one_value_is_two_classes_and_above_which_threshold() -> None:
    rows = [np.full((1, 1), 0.1 + 0.1 * k) for k in range(8)]  # alone they could be probabilities
    rows += [gaussian_array(1, 1, seed=k) for k in range(COUNT - 8)]
    labels: list[tuple[int, ...]] = [(int(x.item() > 0),) for x in rows]
    missing: list[tuple[int, ...]] = [()] * 8
    for given, count in ((labels, COUNT), ([*missing, *labels[8:]], COUNT - 8)):
        found = evaluate(rows, lambda x: x, labels=given)
        accuracy = found.forms["float"].accuracy
        assert accuracy is not None
        assert (accuracy.top1, accuracy.labelled, words(found)) == (1, count, "")
        assert found.task is not None
        assert found.task.why.endswith("one logit: class 1 above 0, else class 0")
    asked = evaluate(rows, lambda x: x - 0.2, task=TaskRequest("classify")).forms["int8"].drop
    assert asked is not None
    assert asked.lost == sum((x.item() > 0) != (x.item() - 0.2 > 0) for x in rows)


@pytest.mark.parametrize("order", [1, -1])
def test_a_number_with_labels_of_more_classes_is_none_in_any_order_of_samples(order: int) -> None:
    grades = np.repeat(np.arange(5), 8)[::order]
    rows = [np.full((1, 1), float(grade)) for grade in grades]
    found = evaluate(rows, lambda x: x, labels=[(int(grade),) for grade in grades])
    assert found.task is not None
    assert (found.task.name, found.unread_labels) == ("none", 40)
    assert "labels: those of 40 samples do not fit the outputs" in words(found)


def test_changed_samples_of_two_classes_are_those_of_the_threshold_of_all_samples() -> None:
    rows = [np.full((1, 1), 0.3)] * 8 + [np.full((1, 1), -2.0)] * 8
    samples = [Sample(f"s{k}", {"x": x}, (int(x.item() > 0),)) for k, x in enumerate(rows)]
    changed = ChangedSamples("int8", None, {})
    found = evaluate_engines(
        lambda feed: [feed["x"]], {"int8": lambda feed: [feed["x"] + 0.4]}, samples, ["y"],
        changed=changed,
    )  # fmt: skip
    assert found.changed_samples == 0
    unlabelled = [Sample(s.name, s.feed, ()) if k < 8 else s for k, s in enumerate(samples)]
    late = evaluate_engines(
        lambda feed: [feed["x"]], {"int8": lambda feed: [feed["x"] + 4]}, unlabelled, ["y"],
        changed=ChangedSamples("int8", None, {}),
    )  # fmt: skip
    drop = late.forms["int8"].drop
    assert drop is not None
    assert (drop.lost, late.changed_samples) == (8, None)


def test_nan_of_another_form_alone_is_said() -> None:
    found = evaluate(scores(), lambda x: x * np.nan if x[0, 0] > 0 else x)
    count = sum(x[0, 0] > 0 for x in scores())
    assert (found.undefined, found.newly_undefined["int8"]) == ({}, {"y": count})
    [doubt] = diagnose_outputs(found)
    assert doubt.serious
    assert f"int8 gives NaN on {count} of 20 samples, where the float model gives" in str(doubt)


def test_samples_whose_scores_are_nan_count_as_wrong_in_their_class() -> None:
    rows = [x * np.nan if k < 5 else x for k, x in enumerate(scores(classes=3))]
    labels: list[tuple[int, ...]] = [
        (0,) if k < 5 else (int(x.argmax()),) for k, x in enumerate(rows)
    ]
    found = evaluate(rows, lambda x: x, labels=labels).forms["float"]
    counts = [sum(label == (k,) for label in labels) for k in range(3)]
    assert found.by_class == tuple((k, n, n - 5 * (k == 0)) for k, n in enumerate(counts))


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int32])
def test_scores_without_negative_numbers_have_an_accuracy(dtype: type) -> None:
    rows = [np.eye(4)[[k % 4]].astype(dtype) for k in range(COUNT)]
    found = evaluate(rows, lambda x: x, labels=[(k % 4,) for k in range(COUNT)])
    assert found.forms["int8"].accuracy is not None
    assert found.forms["int8"].accuracy.top1 == 1


def test_lists_of_indices_agree_if_they_are_equal() -> None:
    rows = [np.array([[9, 3, k % 2]], np.int64) for k in range(COUNT)]
    found = evaluate(rows, lambda x: x[:, [0, 2, 1]] if x[0, 2] else x).forms["int8"]
    assert found.outputs["y"].agreement == 0.5
    assert found.accuracy is None
    assert found.drop is not None
    assert (found.drop.metric, found.drop.points) == ("agreement with float", 50)


def test_labels_that_fit_no_output_are_said() -> None:
    ages = [gaussian_array(1, 1, seed=k) for k in range(COUNT)]
    found = evaluate(ages, lambda x: x, labels=[(30 + k,) for k in range(COUNT)])
    assert found.forms["float"].accuracy is None
    assert "labels: those of 20 samples do not fit the outputs" in words(found)
    assert not found.needs_labels


def test_figures_and_changed_samples_are_of_the_same_output() -> None:
    rows = [gaussian_array(1, 20, seed=k) for k in range(COUNT)]
    samples = [Sample(f"s{k}", {"x": x}, (int(x[:, 10:].argmax()),)) for k, x in enumerate(rows)]
    changed = ChangedSamples("int8", None, {})
    found = evaluate_engines(
        lambda feed: [feed["x"][:, :10], feed["x"][:, 10:]],
        {"int8": lambda feed: [-feed["x"][:, :10], feed["x"][:, 10:]]},
        samples, ["aux", "main"], changed=changed,
    )  # fmt: skip
    assert found.task is not None
    assert (found.head, found.task.output) == ("main", "main")
    assert "main" in found.task.why
    assert (found.changed_samples, found.changed) == (0, ())


def test_no_answers_are_counted_where_there_is_no_task() -> None:
    samples = [Sample(f"s{k}", {"x": gaussian_array(1, 10, seed=k)}, ()) for k in range(COUNT)]

    def count_changed(**options: Any) -> int | None:
        found = evaluate_engines(
            lambda feed: [feed["x"]], {"int8": lambda feed: [-feed["x"]]}, samples, ["y"],
            changed=ChangedSamples("int8", None, {}), **options,
        )  # fmt: skip
        assert found.changed == () or found.changed_samples
        return found.changed_samples

    assert count_changed() == COUNT
    assert count_changed(metric=lambda outputs, sample: 0.0) is None
    assert count_changed(task=TaskRequest("none")) is None
