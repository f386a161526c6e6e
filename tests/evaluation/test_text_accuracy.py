"""Exact lines and wrong characters against labels: those counted by hand, with a paired interval."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ptq.core.errors import DataError, UsageError
from ptq.evaluation.checks.baseline_check import check_baseline
from ptq.evaluation.drop import measure_top1_drop
from ptq.evaluation.intervals import compute_tango_interval
from ptq.evaluation.measurements import FormMetrics
from ptq.evaluation.tasks.ctc import CtcTask
from ptq.evaluation.tasks.request import recognize_task
from ptq.evaluation.tasks.task import Example, TaskLabels, TaskRequest

ALPHABET = ("", "a", "b", "c", "d", "e", "f", "g", " ")
FEED = {"x": np.zeros((1, 1, 8, 72), np.float32)}


def spell(text: str) -> dict[str, np.ndarray[Any, Any]]:
    """Scores that read as a text; a blank follows each character."""
    steps = [step for letter in text for step in (ALPHABET.index(letter), 0)]
    scores = np.zeros((1, 24, len(ALPHABET)), np.float32)
    scores[0, np.arange(24), [*steps, *[0] * (24 - len(steps))]] = 9
    return {"y": scores}


def measure(rows: list[tuple[str, str, str]]) -> tuple[Any, dict[str, Any]]:
    """Drop and figures of samples, each with label, float text and text of the other form."""
    labels = {str(k): label for k, (label, _, _) in enumerate(rows)}
    meter = CtcTask("y", 0, alphabet=ALPHABET, labels=labels).start()
    for k, (_, before, after) in enumerate(rows):
        meter.add(Example(FEED, spell(before), str(k)), spell(after))
    return meter.measure_drop(), {figure.name: figure for figure in meter.measure_figures()}


ROWS = [
    ("abc", "abc", "abc"),
    ("abcd", "abcd", "abbd"),  # lost, one character
    ("ef", "eg", "ef"),  # gained, one character
    ("gg", "gg", "g"),  # lost, one character
    ("a b", "a c", "a c"),  # both wrong
    ("fed", "fed ", "fed"),  # a blank at the end is no error
] * 5


def test_exact_lines_and_characters_are_those_counted_by_hand() -> None:
    drop, figures = measure(ROWS)
    before = [label == one.strip() for label, one, _ in ROWS]
    after = [label == other.strip() for label, _, other in ROWS]
    expected = measure_top1_drop(before, after)
    assert drop.metric == "exact lines"
    assert (drop.points, drop.lo, drop.hi, drop.p) == (
        pytest.approx(100 / 6), expected.lo, expected.hi, expected.p,
    )  # fmt: skip
    assert (drop.lost, drop.gained) == (10, 5)
    assert figures["exact lines"].value == pytest.approx(3 / 6)
    assert figures["character error rate"].value == pytest.approx(3 / 17)
    assert figures["character error rate that float has not"].value == pytest.approx(1 / 17)
    assert figures["agreement of decoded sequences"].value == pytest.approx(2 / 6)


@pytest.mark.parametrize(
    ("read", "reason"),
    [("abce", "hardly any line is without an error"), ("gfgf", "labels do not match its outputs")],
)
def test_labels_match_where_characters_do(read: str, reason: str) -> None:
    _, figures = measure([("abcd", read, read)] * 5)
    found = check_baseline(FormMetrics(None, {}, figures=tuple(figures.values())))
    assert found is not None
    assert found.what.startswith(
        "exact lines of the reference is 0.00 %, so that no loss can show:"
    )
    assert found.what.endswith(reason)


def test_the_interval_of_added_errors_is_paired() -> None:
    """Where both forms make the same errors, nothing is added on any draw: the interval is that of no change."""
    same = [("abc", "abd", "abd"), ("abc", "abc", "abc")] * 20
    figures = measure(same)[1]
    added = figures["character error rate that float has not"]
    assert (added.value, added.interval) == (0, compute_tango_interval(0, 0, len(same)))
    figures = measure([*same, ("abc", "abc", "abd")])[1]
    added, rate = (figures[name] for name in (added.name, "character error rate"))
    widths = [high - low for low, high in (added.interval, rate.interval)]
    assert 0 < widths[0] < widths[1] / 3


def test_float_alone_has_no_figures_of_another_form() -> None:
    meter = CtcTask("y", 0, alphabet=ALPHABET, labels={"0": "abc"}).start()
    example = Example(FEED, spell("abc"), "0")
    meter.add(example, example.outputs)
    assert [f.name for f in meter.measure_figures()] == ["exact lines", "character error rate"]


def test_samples_without_a_label_do_not_count() -> None:
    meter = CtcTask("y", 0, alphabet=ALPHABET, labels={"0": "abc"}).start()
    for name in ("0", "1"):
        meter.add(Example(FEED, spell("abc"), name), spell("ab"))
    assert meter.measure_drop().samples == 1


def test_labels_of_none_of_the_samples_are_an_error() -> None:
    meter = CtcTask("y", 0, alphabet=ALPHABET, labels={"0": "abc"}).start()
    meter.add(Example(FEED, spell("abc"), "other"), spell("ab"))
    with pytest.raises(DataError, match="no labelled text belongs to a sample"):
        meter.measure_drop()


def request(**labels: Any) -> TaskRequest:
    metadata = {"character": "a\nb"} if labels.pop("metadata", False) else {}
    return TaskRequest(None, metadata, TaskLabels(texts={"0": "abc", "1": "xyz"}, **labels))


EXAMPLES = [Example(FEED, spell(text), str(k)) for k, text in enumerate(("abc", "gg"))]


def test_labels_say_the_task_and_what_the_alphabet_lacks_is_said() -> None:
    task, choice = recognize_task(request(alphabet=ALPHABET), EXAMPLES)
    assert isinstance(task, CtcTask)
    assert task.alphabet == ALPHABET
    listed = TaskRequest(None, {"character": "a\nb\nc\nd\ne\nf\ng"})
    assert recognize_task(listed, EXAMPLES)[0] == CtcTask("y", 0, alphabet=ALPHABET)
    assert choice.why.endswith("1 of 2 labels have characters that it cannot write")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({}, "transcripts need the characters of the classes"),
        ({"alphabet": ("a", "b")}, "the file lists 2 characters, but the output has 9 classes"),
        ({"metadata": True}, "the metadata of the model lists 2 characters, but the output has 9"),
    ],
)
def test_characters_that_do_not_fit_the_classes_are_refused(
    labels: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        recognize_task(request(**labels), EXAMPLES)


def test_labels_of_texts_for_a_model_that_reads_nothing_are_refused() -> None:
    examples = [Example(FEED, {"y": np.zeros((1, 10), np.float32)}, "0")]
    with pytest.raises(UsageError, match="task ctc: no output fits"):
        recognize_task(request(alphabet=ALPHABET), examples)
