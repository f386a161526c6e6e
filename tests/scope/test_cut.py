"""Cheapest divisions; sums by hand are the oracle."""

from __future__ import annotations

import math

import pytest

from ptq.scope.cut import INTEGERS, REALS, Division


def three(beside: float, far: float) -> Division:
    """``a`` costs ``beside`` as a real and 2.25 as an integer; ``b``, an integer of its own right, ``far`` as a real."""
    division = Division()
    division.edge(INTEGERS, "a", beside)
    division.edge("a", REALS, 2.25)
    division.edge(INTEGERS, "b", far)
    division.edge("b", "a", math.inf)
    return division


@pytest.mark.parametrize("far", [1.0, 3.5, 16751.104, 6.1e7 + 0.75])
def test_of_divisions_that_cost_the_same_the_one_with_more_integers_is_taken(far: float) -> None:
    assert "a" in three(2.25, far).integers()


def test_the_cheaper_division_is_taken() -> None:
    assert "a" in three(2.5, 1.0).integers()
    division = three(2.0, 0.125)
    assert {"a", "b"}.isdisjoint(division.integers())
