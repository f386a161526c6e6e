"""Paired statistics; the oracles are exact enumerations of what chance can do, and printed examples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.random import default_rng

from ptq.evaluation import intervals


def test_mcnemar_is_1_where_no_sample_changes() -> None:
    assert intervals.compute_mcnemar_p_value(0, 0) == 1


@pytest.mark.parametrize("changed", [1, 2, 5, 8, 13])
def test_mcnemar_is_the_share_of_all_outcomes_that_part_the_numbers_as_far(changed: int) -> None:
    outcomes = [(k, changed - k) for k in range(changed + 1) for _ in range(math.comb(changed, k))]
    for lost in range(changed + 1):
        distance = abs(2 * lost - changed)
        farther = sum(abs(a - b) > distance for a, b in outcomes)
        equally = sum(abs(a - b) == distance for a, b in outcomes)
        expected = (farther + equally / 2) / len(outcomes)
        assert intervals.compute_mcnemar_p_value(lost, changed - lost) == pytest.approx(expected)


def _chance(lost: int, gained: int, samples: int, p: float, q: float) -> float:
    ways = math.comb(samples, lost) * math.comb(samples - lost, gained)
    return float(ways * p**lost * q**gained * (1 - p - q) ** (samples - lost - gained))


@pytest.mark.parametrize(("p", "q"), [(0.05, 0.05), (0.1, 0.02), (0.3, 0.1), (0.02, 0.0)])
def test_a_difference_lies_in_its_interval_as_often_as_promised(p: float, q: float) -> None:
    samples, covered = 30, 0.0
    for lost in range(samples + 1):
        for gained in range(samples + 1 - lost):
            lo, hi = intervals.compute_tango_interval(lost, gained, samples)
            covered += _chance(lost, gained, samples, p, q) * (lo <= p - q <= hi)
    assert covered > 0.94


def test_the_interval_of_a_difference_is_that_of_the_printed_example() -> None:
    # airway reactivity before and after stem cell transplantation, Fagerland et al. 2014, table VI
    assert intervals.compute_tango_interval(7, 1, 21) == pytest.approx((0.026, 0.517), abs=5e-4)


def test_the_interval_turns_round_with_the_difference() -> None:
    lo, hi = intervals.compute_tango_interval(9, 2, 50)
    assert intervals.compute_tango_interval(2, 9, 50) == pytest.approx((-hi, -lo))


@pytest.mark.parametrize("counts", [(0, 0, 1), (1, 0, 1), (0, 0, 10), (10, 0, 10), (5, 5, 10)])
def test_the_interval_holds_the_difference_also_at_the_ends(counts: tuple[int, int, int]) -> None:
    lost, gained, samples = counts
    lo, hi = intervals.compute_tango_interval(*counts)
    assert -1 <= lo <= (lost - gained) / samples <= hi <= 1


@pytest.mark.parametrize(("count", "samples"), [(0, 20), (1, 20), (7, 20), (20, 20)])
def test_a_proportion_is_bounded_where_its_tails_have_a_fortieth(count: int, samples: int) -> None:
    def tail(ks: range, p: float) -> float:
        return sum(math.comb(samples, k) * p**k * (1 - p) ** (samples - k) for k in ks)

    lo, hi = intervals.compute_clopper_pearson_interval(count, samples)
    assert lo == 0 if count == 0 else tail(range(count, samples + 1), lo) == pytest.approx(0.025)
    assert hi == 1 if count == samples else tail(range(count + 1), hi) == pytest.approx(0.025)


def test_draws_scatter_as_the_mean_of_the_samples_does() -> None:
    values = default_rng(1).standard_normal((500, 1))
    means = intervals.bootstrap_sums(values)[:, 0] / 500
    assert means.std() == pytest.approx(values.std() / math.sqrt(500), rel=0.1)
    assert means.mean() == pytest.approx(values.mean(), abs=0.01)


def test_pooled_samples_scatter_as_they_do_one_by_one() -> None:
    values = default_rng(2).standard_normal((5 * intervals.MAX_POOLS + 7, 1)) + 3
    means = intervals.bootstrap_sums(values)[:, 0] / len(values)
    assert means.std() == pytest.approx(values.std() / math.sqrt(len(values)), rel=0.1)


@pytest.mark.parametrize("samples", [3, intervals.MAX_POOLS + 1, 3 * intervals.MAX_POOLS // 2])
def test_means_of_equal_values_do_not_scatter_whatever_the_pools_hold(samples: int) -> None:
    means = intervals.bootstrap_means(np.full((samples, 2), 0.995))
    assert means == pytest.approx(0.995, abs=1e-12)


def test_the_draws_of_a_called_statistic_are_of_all_samples_and_always_the_same() -> None:
    values = default_rng(3).standard_normal(100)
    drawn = intervals.bootstrap_statistic(lambda rows: float(np.median(values[rows])), 100)
    again = intervals.bootstrap_statistic(lambda rows: float(np.median(values[rows])), 100)
    assert np.array_equal(drawn, again)
    lo, hi = intervals.compute_percentile_interval(drawn)
    assert lo < np.median(values) < hi
