"""Cheapest divisions; sums by hand are the oracle."""

from __future__ import annotations

import math

import pytest

from ptq.solver.partition.min_cut import FLOATS, INTEGERS, MinCut


def division_of(real: float, far: float) -> MinCut:
    """``a`` costs ``real`` in float; in integers 0.5, and 1.75 to hand it on; parting ``b`` costs ``far``."""
    division = MinCut()
    division.add_edge(INTEGERS, "a", real)
    division.add_edge("a", FLOATS, 0.5)
    division.add_edge("a", "handed on", 1.75)
    division.add_edge("handed on", FLOATS, math.inf)
    division.add_edge(INTEGERS, "b", far)
    return division


@pytest.mark.parametrize("far", [1.1 * 1.7**power for power in range(24)])
def test_of_divisions_that_cost_the_same_the_one_with_more_integers_is_taken(far: float) -> None:
    assert "a" in division_of(2.25, far).source_side()


def test_the_cheaper_division_is_taken() -> None:
    assert "a" in division_of(2.5, 1.0).source_side()
    assert "a" not in division_of(2.0, 1.0).source_side()
