"""Feeds of several rows, against numpy's slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ptq.core.errors import DataError
from ptq.data import InputSpec, open_samples

FREE = InputSpec("x", np.dtype(np.float32), (None, 4))
ONE = InputSpec("x", np.dtype(np.float32), (1, 4))
EIGHT = InputSpec("x", np.dtype(np.float32), (8, 4))
SIGNAL = InputSpec("x", np.dtype(np.float32), (None,))
X = np.arange(32, dtype=np.float32).reshape(8, 4)


@pytest.mark.parametrize("spec", [FREE, ONE], ids=["free", "one"])
def test_s4_a_batch_is_as_many_samples_as_it_has_rows(spec: InputSpec) -> None:
    samples = open_samples([{"x": X}, {"x": X[:3]}], [spec])
    assert len(samples) == 11
    np.testing.assert_array_equal(
        np.concatenate([s.feed["x"] for s in samples]), np.concatenate([X, X[:3]])
    )
    assert {s.feed["x"].shape for s in samples} == {(1, 4)}
    assert [s.name for s in samples][-1] == "data[10]"


def test_s4_the_labels_of_a_batch_belong_to_its_rows() -> None:
    samples = open_samples([(X, np.arange(8)), (X[:2], [5, [6, 7]])], [FREE])
    assert [s.labels for s in samples] == [*((k,) for k in range(8)), (5,), (6, 7)]


def test_a_set_of_acceptable_classes_stays_one_label_of_one_row() -> None:
    (sample,) = open_samples([(X[:1], [1, 2])], [FREE])
    assert sample.labels == (1, 2)


def test_a_batch_of_the_models_fixed_size_is_one_feed() -> None:
    (sample,) = open_samples([{"x": X}], [EIGHT])
    np.testing.assert_array_equal(sample.feed["x"], X)


@pytest.mark.parametrize(
    ("array", "have"), [(X[:3], "3 rows"), (X[0], "one sample without a batch axis")]
)
def test_a_batch_of_another_size_than_the_models_is_refused(array: object, have: str) -> None:
    with pytest.raises(DataError, match=rf"{have}; the model takes float32\[8, 4\].*batch_size=8"):
        list(open_samples([array], [EIGHT]))


@pytest.mark.parametrize(("label", "have"), [(3, "one label"), ([1, 2], "2 labels")])
def test_a_batch_without_a_label_for_each_row_is_refused(label: object, have: str) -> None:
    with pytest.raises(DataError, match=rf"data\[0\]: the batch has 8 rows, but {have}"):
        list(open_samples([(X, label)], [FREE]))


def test_inputs_with_different_numbers_of_rows_are_one_feed() -> None:
    text = InputSpec("text", np.dtype(np.float32), (None, 4))
    (sample,) = open_samples([{"x": X, "text": X[:2]}], [FREE, text])
    assert (len(sample.feed["x"]), len(sample.feed["text"])) == (8, 2)


def test_a_signal_of_free_length_is_no_batch() -> None:
    (sample,) = open_samples([X.ravel()], [SIGNAL])
    np.testing.assert_array_equal(sample.feed["x"], X.ravel())


def test_a_sample_without_a_batch_axis_gets_one() -> None:
    samples = open_samples([(X[0], 3), X[1].tolist()], [FREE])
    assert [s.feed["x"].shape for s in samples] == [(1, 4), (1, 4)]
    assert [s.labels for s in samples] == [(3,), ()]


@pytest.mark.parametrize("kind", [list, np.array])
def test_a_batch_of_one_row_has_a_one_hot_label_as_others_have(kind: Callable[..., Any]) -> None:
    items = [(X[:2], kind([[0, 0, 1], [0, 1, 0]])), (X[:1], kind([[1, 0, 0]]))]
    assert [s.labels for s in open_samples(items, [FREE])] == [(2,), (1,), (0,)]


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_a_list_of_the_one_label_of_a_batch_may_hold_any_row(kind: Callable[..., Any]) -> None:
    (sample,) = open_samples([(X[:1], [kind([0, 0, 1])])], [FREE])
    assert sample.labels == (2,)
    for wrong in ([kind([])], [[[1], [1, 2]]]):
        with pytest.raises(DataError, match="is not one label; give a whole number"):
            list(open_samples([(X[:1], wrong)], [FREE]))
