"""Drops and budgets; counting by hand is the oracle."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ptq.evaluation import intervals
from ptq.evaluation.drop import (
    AGREEMENT,
    ERROR,
    TOP1,
    Drop,
    describe_metric_change,
    measure_agreement_drop,
    measure_error_drop,
    measure_top1_drop,
)


def test_accuracy_is_lost_by_the_samples_that_float_alone_gets_right() -> None:
    drop = measure_top1_drop([True] * 90 + [False] * 10, [True] * 85 + [False] * 13 + [True] * 2)
    assert (drop.metric, drop.lost, drop.gained, drop.samples) == (TOP1, 5, 2, 100)
    assert drop.points == pytest.approx(3.0)
    assert (drop.lo, drop.hi) == pytest.approx(
        [100 * end for end in intervals.compute_tango_interval(5, 2, 100)]
    )
    assert drop.p == intervals.compute_mcnemar_p_value(5, 2)


def test_agreement_is_lost_by_the_samples_of_another_class() -> None:
    drop = measure_agreement_drop([True] * 49 + [False])
    assert (drop.metric, drop.points) == (AGREEMENT, pytest.approx(2.0))
    assert (drop.lo, drop.hi) == pytest.approx(
        [100 * end for end in intervals.compute_clopper_pearson_interval(1, 50)]
    )


def test_the_error_is_a_share_of_the_energy_of_all_samples() -> None:
    signal, noise = [100.0, 300.0] * 20, [1.0, 7.0] * 20
    drop = measure_error_drop(signal, noise)
    assert drop.metric == ERROR
    assert drop.points == pytest.approx(100 * 8 / 400)
    assert 100 * 1 / 100 < drop.lo < drop.points < drop.hi < 100 * 7 / 300


def test_silence_without_error_loses_nothing_and_with_error_everything() -> None:
    assert measure_error_drop([0.0, 0.0], [0.0, 0.0]).points == 0
    assert measure_error_drop([0.0, 0.0], [1.0, 1.0]).points == math.inf


def test_intervals_are_the_same_every_time() -> None:
    noise = np.linspace(1, 2, 30).tolist()
    assert measure_error_drop([9.0] * 30, noise) == measure_error_drop([9.0] * 30, noise)


@pytest.mark.parametrize(
    ("points", "change"), [(0.0, "0.00"), (1e-15, "0.00"), (0.0042, "−0.004"), (0.006, "−0.01")]
)
def test_a_small_change_is_not_written_as_none(points: float, change: str) -> None:
    drop = Drop("agreement of pixels", points, 0.0, 0.1, 12)
    assert describe_metric_change(drop) == (
        f"agreement of pixels {change} points",
        "95 % CI −0.10 … 0.00",
    )
