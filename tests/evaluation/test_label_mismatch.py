"""Labels that have nothing to do with the predictions are found; labels that a test shuffles are the oracle."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from networks import build_network

import ptq
from ptq.evaluation.checks.label_mismatch import find_label_mismatch
from ptq.evaluation.confusion import is_low, may_be_low

MODEL = build_network("y = MatMul(x, w)", {"x": ("n", 5)}, w=np.eye(5, dtype=np.float32))


def _samples(count: int, *, shuffled: bool) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(count, 5)).astype(np.float32)
    labels = rows.argmax(axis=1)
    return {"x": rows, "labels": rng.permutation(labels) if shuffled else labels}


def _confusion(labels: np.ndarray, predicted: np.ndarray) -> Counter[tuple[int, int]]:
    return Counter(zip(labels.tolist(), predicted.tolist(), strict=True))


def test_s7_shuffled_labels_of_an_array_are_a_warning_of_every_verb(tmp_path: Path) -> None:
    np.savez(tmp_path / "shuffled.npz", **_samples(200, shuffled=True))
    data = tmp_path / "shuffled.npz"
    found = [
        ptq.evaluate(MODEL, data, threads=1).warnings,
        ptq.compare(MODEL, MODEL, data, threads=1).warnings,
        ptq.quantize(MODEL, data, eval_data=data, threads=1).report.warnings,
        ptq.sensitivity(MODEL, data, eval_data=data, measure=0, threads=1).warnings,
    ]
    for warnings in found:
        (warning,) = (text for text in warnings if text.startswith("labels: "))
        assert " of 200 labelled samples right, as many as by chance (about " in warning
        assert ": labels do not match predictions; check that each label belongs to" in warning


def test_labels_that_match_are_no_warning() -> None:
    evaluation = ptq.evaluate(MODEL, _samples(200, shuffled=False), threads=1)
    assert evaluation.warnings == ()


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("accuracy", [0.2, 0.4])
def test_a_weak_model_of_many_classes_is_better_than_chance(seed: int, accuracy: float) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 100, 100)
    predicted = np.where(rng.random(100) < accuracy, labels, rng.integers(0, 100, 100))
    found = find_label_mismatch(_confusion(labels, predicted), None)
    assert found is None or found.what.startswith("low accuracy: the model gets ")


@pytest.mark.parametrize(("right", "is_low"), [(39, True), (40, False)])
def test_a_low_accuracy_is_named(right: int, is_low: bool) -> None:
    labels = np.arange(100) % 20
    predicted = np.where(
        np.arange(100) < right, labels, np.random.default_rng(1).permutation(labels)
    )
    predicted[right:] = np.where(predicted == labels, (labels + 1) % 20, predicted)[right:]
    found = find_label_mismatch(_confusion(labels, predicted), None)
    assert (found is not None and found.what.startswith("low accuracy: ")) is is_low


@pytest.mark.parametrize(
    ("right", "total", "low", "maybe"),
    [
        (1, 12, True, True),
        (4, 12, False, True),
        (11, 12, False, False),
        (16, 50, True, True),
        (160, 500, True, True),
        (260, 500, False, True),
        (280, 500, False, False),
        (0, 0, False, False),
    ],
)
def test_one_rule_says_which_accuracy_is_low(
    right: int, total: int, low: bool, maybe: bool
) -> None:
    assert (is_low(right, total), may_be_low(right, total)) == (low, maybe)


def test_an_accuracy_of_a_third_of_ten_classes_is_a_warning() -> None:
    labels = np.arange(100) % 10
    predicted = np.where(np.arange(100) < 32, labels, (labels + np.arange(100) // 10) % 10)
    found = find_label_mismatch(_confusion(labels, predicted), None)
    assert found is not None
    assert found.what.startswith("low accuracy: the model gets 3")


def test_labels_of_one_class_are_named() -> None:
    """As of a binary model whose labels are -1 and 1: -1 means no label."""
    found = find_label_mismatch({(1, 1): 200, (1, 0): 3}, None)
    assert found is not None
    assert found.what.startswith("all 203 labelled samples have label 1")


def test_a_frequent_class_that_is_always_predicted_is_no_mismatch() -> None:
    labels = np.array([0] * 95 + [1] * 5)
    assert find_label_mismatch(_confusion(labels, np.zeros(100, int)), None) is None


@pytest.mark.parametrize("samples", [0, 1, 5])
def test_few_samples_say_nothing(samples: int) -> None:
    labels = np.arange(samples)
    assert find_label_mismatch(_confusion(labels, labels + 1000), None) is None


def test_fewer_samples_than_show_chance_can_show_a_low_accuracy() -> None:
    labels = np.arange(49)
    found = find_label_mismatch(_confusion(labels, labels + 1000), None)
    assert found is not None
    assert found.what == "low accuracy: the model gets 0 of 49 labelled samples right"


def test_no_sample_right_is_a_mismatch() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, 60)
    found = find_label_mismatch(_confusion(labels, rng.integers(10, 20, 60)), None)
    assert found is not None
    assert not found.serious
    assert found.what.startswith(
        "the model gets 0 of 60 labelled samples right, as many as by chance (about 0)"
    )
