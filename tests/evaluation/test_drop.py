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
    agreement_drop,
    check_budget,
    error_drop,
    top1_drop,
)


def test_accuracy_is_lost_by_the_samples_that_float_alone_gets_right() -> None:
    drop = top1_drop([True] * 90 + [False] * 10, [True] * 85 + [False] * 13 + [True] * 2)
    assert (drop.metric, drop.lost, drop.gained, drop.samples) == (TOP1, 5, 2, 100)
    assert drop.points == pytest.approx(3.0)
    assert (drop.lo, drop.hi) == pytest.approx(
        [100 * end for end in intervals.tango_interval(5, 2, 100)]
    )
    assert drop.p == intervals.mcnemar(5, 2)


def test_agreement_is_lost_by_the_samples_of_another_class() -> None:
    drop = agreement_drop([True] * 49 + [False])
    assert (drop.metric, drop.points) == (AGREEMENT, pytest.approx(2.0))
    assert (drop.lo, drop.hi) == pytest.approx(
        [100 * end for end in intervals.clopper_pearson_interval(1, 50)]
    )


def test_the_error_is_a_share_of_the_energy_of_all_samples() -> None:
    signal, noise = [100.0, 300.0] * 20, [1.0, 7.0] * 20
    drop = error_drop(signal, noise)
    assert drop.metric == ERROR
    assert drop.points == pytest.approx(100 * 8 / 400)
    assert 100 * 1 / 100 < drop.lo < drop.points < drop.hi < 100 * 7 / 300


def test_silence_without_error_loses_nothing_and_with_error_everything() -> None:
    assert error_drop([0.0, 0.0], [0.0, 0.0]).points == 0
    assert error_drop([0.0, 0.0], [1.0, 1.0]).points == math.inf


def _top1(lost: int, gained: int, samples: int) -> tuple[list[bool], list[bool]]:
    rest = [True] * (samples - lost - gained)
    return [*rest, *[True] * lost, *[False] * gained], [*rest, *[False] * lost, *[True] * gained]


@pytest.mark.parametrize(
    ("lost", "gained", "samples", "points", "verdict"),
    [
        (0, 0, 1000, 0.5, "held"),
        (0, 0, 100, 0.5, "undecided"),
        (40, 5, 500, 1.0, "exceeded"),
        (7, 2, 500, 0.5, "undecided"),
        (4, 5, 500, 0.5, "undecided"),
        (2, 7, 500, 1.0, "held"),
    ],
)
def test_a_budget_is_compared_with_the_whole_interval(
    lost: int, gained: int, samples: int, points: float, verdict: str
) -> None:
    assert check_budget(top1_drop(*_top1(lost, gained, samples)), points).verdict == verdict


@pytest.mark.parametrize(("lost", "points"), [(7, 0.5), (12, 1.5), (30, 7.0)])
def test_about_as_many_samples_as_it_asks_for_are_enough(lost: int, points: float) -> None:
    budget = check_budget(top1_drop(*_top1(lost, 2, 500)), points)
    assert budget.verdict == "undecided"
    assert budget.needed is not None
    assert f"need about {budget.needed}" in str(budget)
    times = budget.needed / 500
    more = top1_drop(
        *_top1(round(1.2 * times * lost), round(1.2 * times * 2), round(1.2 * times * 500))
    )
    assert check_budget(more, points).verdict != "undecided"


def test_a_drop_equal_to_the_budget_can_never_be_decided() -> None:
    budget = check_budget(top1_drop(*_top1(5, 0, 500)), 1.0)
    assert (budget.verdict, budget.needed) == ("undecided", None)
    assert str(budget) == "not enough samples to decide"


def test_intervals_are_the_same_every_time() -> None:
    noise = np.linspace(1, 2, 30).tolist()
    assert error_drop([9.0] * 30, noise) == error_drop([9.0] * 30, noise)
