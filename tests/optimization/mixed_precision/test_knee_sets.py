"""The sets of float nodes that the rule of the knee takes, by time and measured error."""

from __future__ import annotations

import pytest

from ptq.optimization.mixed_precision.knee.knee_sets import FloatSet, choose_for_each_limit
from ptq.optimization.preference import PREFERENCES

BALANCED = PREFERENCES["balanced"]
"""3 % for half the error; up to 15 % for a quarter of what is left, while more than 1 % of decisions change."""


def _set(name: str, spent: float, error: float) -> FloatSet:
    return FloatSet(frozenset([name]), spent, error)


@pytest.mark.parametrize(
    ("spent", "error", "taken"), [(0.03, 0.5, True), (0.03, 0.51, False), (0.031, 0.1, False)]
)
def test_few_percent_of_the_time_must_halve_the_error(
    spent: float, error: float, taken: bool
) -> None:
    assert bool(choose_for_each_limit([_set("a", spent, error)], BALANCED, None)) == taken


def test_of_sets_with_nearly_the_same_error_the_fastest_is_taken() -> None:
    sets = [_set("slow", 0.029, 0.3), _set("fast", 0.01, 0.31), _set("faster", 0.005, 0.4)]
    assert choose_for_each_limit(sets, BALANCED, None) == [sets[1]]


def test_more_time_is_spent_while_it_removes_a_quarter_of_what_is_left() -> None:
    sets = [_set("a", 0.02, 0.6), _set("b", 0.05, 0.4), _set("c", 0.09, 0.35), _set("d", 0.14, 0.3)]
    found = choose_for_each_limit(sets, BALANCED, 0.5)
    assert [(one.spent, one.error) for one in found] == [(0.02, 0.6), (0.05, 0.4), (0.14, 0.3)]


def test_no_more_time_is_spent_once_few_decisions_change() -> None:
    sets = [_set("a", 0.02, 0.2), _set("b", 0.05, 0.01)]
    assert choose_for_each_limit(sets, BALANCED, 0.02) == [sets[0]]


def test_without_a_set_that_gains_enough_there_is_none() -> None:
    assert choose_for_each_limit([], BALANCED, 0.5) == []
    assert choose_for_each_limit([_set("a", 0.14, 0.8)], BALANCED, 0.5) == []
