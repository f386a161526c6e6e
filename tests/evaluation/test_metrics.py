"""Accuracy and fidelity; the definitions, computed by hand, are the oracle."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ptq.evaluation.metrics import AccuracyMeter, FidelityMeter, flatten_output, is_scores


def test_an_equal_output_has_no_noise() -> None:
    meter = FidelityMeter()
    meter.add(np.array([[1.0, 2, 3]]), np.array([[1.0, 2, 3]]))
    result = meter.result()
    assert (result.sqnr_db, result.cosine, result.agreement) == (math.inf, 1.0, 1.0)


def test_sqnr_is_over_all_samples_and_cosine_a_sample_at_a_time() -> None:
    meter = FidelityMeter()
    meter.add(np.array([[3.0, 4.0]]), np.array([[3.0, 4.5]]))
    meter.add(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]]))
    result = meter.result()
    assert result.sqnr_db == pytest.approx(10 * math.log10(26 / 2.25))
    first = (9 + 18) / (5 * math.sqrt(9 + 4.5**2))
    assert result.cosine == pytest.approx((first + 0) / 2)
    assert result.agreement == 0.5


def test_silence_against_noise_is_minus_infinity_and_against_silence_equal() -> None:
    noisy, silent = FidelityMeter(), FidelityMeter()
    noisy.add(np.zeros((1, 3)), np.ones((1, 3)))
    silent.add(np.zeros((1, 3)), np.zeros((1, 3)))
    assert (noisy.result().sqnr_db, noisy.result().cosine) == (-math.inf, 0.0)
    assert (silent.result().sqnr_db, silent.result().cosine) == (math.inf, 1.0)


def test_an_output_that_is_no_list_of_scores_has_no_agreement() -> None:
    meter = FidelityMeter()
    meter.add(np.ones((1, 2, 3)), np.ones((1, 2, 3)))
    assert meter.result().agreement is None


@pytest.mark.parametrize(
    ("shape", "scores"),
    [
        ((1, 10), True),
        ((10,), True),
        ((1, 10, 1, 1), True),
        ((1, 1), False),
        ((), False),
        ((2, 10), False),
        ((1, 3, 8, 8), False),
    ],
)
def test_scores_are_one_axis(shape: tuple[int, ...], scores: bool) -> None:
    assert is_scores(np.zeros(shape)) == scores


def test_unlabelled_samples_are_left_out() -> None:
    meter = AccuracyMeter()
    meter.add(np.array([[0.0, 1.0]]), ())
    assert meter.result() is None
    meter.add(np.array([[0.0, 1.0]]), (1,))
    meter.add(np.array([[0.0, 1.0]]), (0,))
    result = meter.result()
    assert result is not None
    assert (result.top1, result.labelled) == (0.5, 2)


def test_any_acceptable_class_counts() -> None:
    meter = AccuracyMeter()
    meter.add(np.array([[0.0, 1.0, 0.5]]), (0, 1))
    meter.add(np.array([[0.0, 1.0, 0.5]]), (0, 2))
    result = meter.result()
    assert result is not None
    assert result.top1 == 0.5


def test_top_five_is_measured_with_many_classes_alone() -> None:
    few, many = AccuracyMeter(), AccuracyMeter()
    few.add(np.arange(20.0)[None], (15,))
    for label in (29, 25, 24):
        many.add(np.arange(30.0)[None], (label,))
    small, large = few.result(), many.result()
    assert small is not None
    assert large is not None
    assert small.top5 is None
    assert large.top5 == pytest.approx(2 / 3)
    assert large.top1 == pytest.approx(1 / 3)


def test_the_first_of_equal_scores_is_taken() -> None:
    meter = AccuracyMeter()
    meter.add(np.array([[0.5, 0.5]]), (0,))
    result = meter.result()
    assert result is not None
    assert result.top1 == 1.0


def test_every_figure_of_fidelity_lies_in_its_interval() -> None:
    rng, meter = np.random.default_rng(5), FidelityMeter()
    for _ in range(60):
        x = rng.standard_normal((1, 10))
        meter.add(x, x + 0.2 * rng.standard_normal((1, 10)))
    result = meter.result()
    assert result.agreement is not None
    for figure, interval in (
        (result.sqnr_db, result.sqnr_interval),
        (result.cosine, result.cosine_interval),
        (result.agreement, result.agreement_interval),
    ):
        assert interval is not None
        assert interval[0] < figure < interval[1]
    assert result.sqnr_interval is not None
    lo, hi = result.sqnr_interval
    assert 0.3 < hi - lo < 2  # 600 squares of Gaussian errors: about 0.25 dB of standard error


def test_the_numbers_of_a_sequence_are_those_of_its_items_and_strings_have_none() -> None:
    parts = [np.ones((2, 2), np.float32), np.zeros(1, np.int64)]
    np.testing.assert_array_equal(flatten_output(parts), [1, 1, 1, 1, 0])
    assert flatten_output(np.array(["a"])).size == 0
    assert flatten_output(None).size == 0


def test_an_output_of_another_shape_is_as_far_off_as_can_be() -> None:
    meter = FidelityMeter()
    meter.add(np.float32([[1, 0, 0]]), np.float32([[1, 0]]))
    result = meter.result()
    assert (result.sqnr_db, result.cosine, result.agreement) == (-math.inf, 0, 0)
    meter.add(np.empty((0, 3), np.float32), np.ones((1, 3), np.float32))  # no class in float
    result = meter.result()
    assert (result.sqnr_db, result.cosine, result.agreement) == (-math.inf, 0, None)
    accuracy = AccuracyMeter()
    accuracy.add(np.empty(0), (1,))
    assert accuracy.top1_correct == [False]


def test_an_infinite_error_is_minus_infinite_decibels() -> None:
    meter = FidelityMeter()
    meter.add(np.ones(2), np.array([1, np.inf]))
    assert meter.result().sqnr_db == -np.inf


def test_what_the_float_model_leaves_infinite_is_not_measured() -> None:
    meter = FidelityMeter()
    meter.add(np.array([3.0, -np.inf, np.nan]), np.array([2.0, -128.0, 0.0]))
    meter.add(np.array([-np.inf]), np.array([-128.0]))
    result = meter.result()
    assert result.sqnr_db == pytest.approx(10 * np.log10(9 / 1))
    assert result.cosine == 1


def test_an_infinite_error_among_others_leaves_no_interval_undefined() -> None:
    meter = FidelityMeter()
    meter.add(np.ones(2), np.array([1, np.inf]))
    meter.add(np.ones(2), np.array([1, 1.5]))
    result = meter.result()
    assert result.sqnr_interval is not None
    assert result.sqnr_interval[0] == -np.inf
    assert result.sqnr_interval[1] == pytest.approx(10 * np.log10(2 / 0.25))


def test_an_output_that_is_scores_on_some_samples_only_has_no_agreement():
    meter = FidelityMeter()
    meter.add(np.array([[0.1, 0.9]], np.float32), np.array([[0.2, 0.8]], np.float32))
    assert meter.result().agreement == 1
    meter.add(np.ones((3, 6), np.float32), np.ones((2, 6), np.float32))
    assert meter.result().agreement is None
