"""Verdicts of accuracy budgets; intervals counted by hand are the oracle."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from ptq.evaluation.budget import BudgetSearch, check_budget
from ptq.evaluation.drop import (
    Budget,
    Drop,
    measure_agreement_drop,
    measure_error_drop,
    measure_top1_drop,
)
from ptq.evaluation.tasks.task import measure_ratio


def _top1(lost: int, gained: int, samples: int) -> Drop:
    rest = [True] * (samples - lost - gained)
    return measure_top1_drop(
        [*rest, *[True] * lost, *[False] * gained], [*rest, *[False] * lost, *[True] * gained]
    )


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
    assert check_budget(_top1(lost, gained, samples), points).verdict == verdict


@pytest.mark.parametrize(
    ("lost", "points", "words"),
    [(0, 2.0, "held"), (40, 1.0, "exceeded"), (3, 0.5, "undecided")],
)
def test_each_verdict_has_one_sentence_with_change_interval_and_samples(
    lost: int, points: float, words: str
) -> None:
    budget = check_budget(_top1(lost, 0, 500), points)
    begin = f"budget of {points:g} {'point' if points == 1 else 'points'} of top-1 accuracy: {words} (top-1 "
    assert budget.sentence.startswith(begin)
    assert " on 500 evaluation samples, 95 % CI −" in budget.sentence
    assert str(budget) == budget.sentence
    assert ("evaluation samples would decide it" in budget.sentence) == (words == "undecided")


def test_a_gain_is_not_called_a_loss() -> None:
    sentence = check_budget(_top1(2, 7, 100), 0.5).sentence
    assert "undecided (top-1 +5.00 points on 100 evaluation samples, 95 % CI −" in sentence
    assert "lost" not in sentence


def test_no_change_is_zero_without_a_sign() -> None:
    assert "(top-1 0.00 points on 100 " in check_budget(_top1(0, 0, 100), 0.5).sentence
    assert "(top-1 0.00 points on 100 " in check_budget(_top1(1, 1, 100), 0.5).sentence


@pytest.mark.parametrize(("lost", "points"), [(7, 0.5), (12, 1.5), (30, 7.0)])
def test_about_as_many_samples_as_it_asks_for_are_enough(lost: int, points: float) -> None:
    budget = check_budget(_top1(lost, 2, 500), points)
    assert budget.verdict == "undecided"
    assert budget.needed is not None
    assert f"; about {budget.needed:,} evaluation samples would decide it" in budget.sentence
    times = 1.2 * budget.needed / 500
    more = _top1(round(times * lost), round(times * 2), round(times * 500))
    assert check_budget(more, points).verdict != "undecided"


@pytest.mark.parametrize("points", [0.5, 1.0])
@pytest.mark.parametrize("samples", [12, 20, 50, 100])
def test_without_change_it_asks_for_as_many_samples_as_the_exact_interval(
    samples: int, points: float
) -> None:
    enough = math.ceil(math.log(0.025) / math.log1p(-points / 100))  # (1 - share)^n is 2.5 %
    needed = check_budget(measure_agreement_drop([True] * samples), points).needed
    assert needed is not None
    assert enough <= needed <= 1.3 * enough
    assert check_budget(_top1(0, 0, samples), points).needed == needed


def test_without_change_of_a_figure_it_asks_for_as_many_samples_as_that_of_a_count() -> None:
    hi = 100 * (1 - 0.025 ** (1 / 100))
    assert check_budget(Drop("mean cosine", 0.0, 0.0, hi, 100), 1.0).needed == 400


@pytest.mark.parametrize("samples", [24, 60, 100, 300])
@pytest.mark.parametrize("lost", [1, 2, 3, 4])
def test_as_many_samples_as_it_asks_for_decide_it_in_proportion(samples: int, lost: int) -> None:
    needed = check_budget(_top1(lost, 0, samples), 0.5).needed
    share = lost / samples
    if needed is None or abs(share - 0.005) < 0.002:  # near the budget the number is bounded
        return
    whole = math.ceil if share > 0.005 else math.floor
    assert check_budget(_top1(whole(share * needed), 0, needed), 0.5).verdict != "undecided"
    assert needed < 10 * samples


@pytest.mark.parametrize("lost", range(6))
def test_the_estimate_has_one_significant_digit_and_is_more_than_there_are(lost: int) -> None:
    for samples in (20, 99, 250):
        needed = check_budget(_top1(lost, 1, samples), 0.7).needed
        assert needed is not None
        assert needed > samples
        assert set(str(needed)[1:]) <= {"0"}


def test_a_drop_equal_to_the_budget_can_never_be_decided() -> None:
    budget = check_budget(_top1(50, 0, 5000), 1.0)
    assert (budget.verdict, budget.needed) == ("undecided", None)
    assert budget.sentence.endswith("; no number of evaluation samples would decide it")


def test_a_budget_of_zero_with_no_change_has_no_estimate() -> None:
    budget = check_budget(_top1(0, 0, 50), 0.0)
    assert (budget.verdict, budget.needed) == ("undecided", None)


def test_agreement_and_error_energy_have_sentences_of_their_own() -> None:
    agreement = check_budget(measure_agreement_drop([True] * 49 + [False]), 0.5)
    assert agreement.sentence.startswith(
        "budget of 0.5 points of agreement with float: undecided (agreement with float −2.00 points on 50 "
    )
    error = check_budget(measure_error_drop([1.0] * 9, [0.5] * 9), 0.1)
    assert error.sentence == (
        "budget of 0.1 % of energy of the error: exceeded (error energy 50 % of the output on 9 evaluation "
        "samples, 95 % CI 50 … 50)"
    )


def test_an_infinite_error_has_a_verdict() -> None:
    assert check_budget(measure_error_drop([0.0] * 2, [1.0] * 2), 1.0).verdict == "exceeded"
    wide = Drop("m", 0.0, -1.0, math.inf, 9)
    assert check_budget(wide, 1.0).needed is None


@pytest.mark.filterwarnings("error")
def test_an_infinite_error_of_one_sample_asks_for_no_number_of_samples() -> None:
    drop = measure_error_drop([1.0] * 100, [1e-4] * 99 + [math.inf])
    budget = check_budget(drop, 1.0)
    assert (budget.verdict, budget.needed) == ("undecided", None)
    assert budget.sentence.endswith("; the error of a sample is infinite")


def test_exact_lines_are_decided_by_as_many_samples_as_other_pairs() -> None:
    drop = _top1(10, 6, 100)
    lines = check_budget(replace(drop, metric="exact lines"), 9.0)
    assert lines.needed == check_budget(drop, 9.0).needed
    assert lines.needed is not None
    times = lines.needed / 100
    more = _top1(round(10 * times), round(6 * times), lines.needed)
    assert check_budget(more, 9.0).verdict == "held"


def test_one_sample_decides_no_budget() -> None:
    rows = np.array([[1.0, 256.0]])  # changed pixels and pixels
    share, (lo, hi) = measure_ratio(rows, lambda sums: float(sums[0] / sums[1]))
    pixels = Drop("agreement of pixels", 100 * share, 100 * lo, 100 * hi, 1)
    for drop in (measure_error_drop([1.0], [0.001]), pixels):
        budget = check_budget(drop, 60)
        assert budget.verdict == "undecided"
        assert "no 95 % CI: too few samples" in budget.sentence
        assert budget.sentence.endswith("; more evaluation samples may give an interval")


def _search(*, reached: bool) -> BudgetSearch:
    drop = _top1(3, 0, 100)
    return BudgetSearch(0.5, reached, drop, drop, 100, True, {}, 1)


@pytest.mark.parametrize(
    ("lost", "samples", "reached", "verdict"),
    [
        (0, 1000, False, "held"),
        (1, 100, False, "exceeded"),
        (1, 100, True, "undecided"),
        (40, 500, True, "exceeded"),
    ],
)
def test_the_search_decides_only_where_the_interval_contains_the_budget(
    lost: int, samples: int, reached: bool, verdict: str
) -> None:
    budget: Budget = check_budget(_top1(lost, 0, samples), 0.5, _search(reached=reached))
    assert budget.verdict == verdict
    named = "the search found no float nodes that keep it" in budget.sentence
    assert named == (verdict == "exceeded" and not reached)


@pytest.mark.parametrize(("lost", "lo", "hi"), [(40.0, -5.0, 20.0), (10.0, 30.0, 50.0)])
def test_an_interval_beside_the_drop_decides_nothing(lost: float, lo: float, hi: float) -> None:
    assert check_budget(Drop("m", lost, lo, hi, 64), 25).verdict == "undecided"
