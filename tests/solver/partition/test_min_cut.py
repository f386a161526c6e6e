"""Cheapest divisions; sums by hand are the oracle."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Set

import numpy as np
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


@pytest.mark.parametrize("seed", range(40))
def test_no_division_of_a_random_network_is_cheaper_or_has_more_integers_at_the_same_cost(
    seed: int,
) -> None:
    rng, names = np.random.default_rng(seed), [*"abcdefg"]
    costs = {
        (start, end): math.inf if rng.random() < 0.1 else float(rng.integers(1, 9)) / 4
        for start, end in itertools.permutations([INTEGERS, *names, FLOATS], 2)
        if rng.random() < 0.4 and (start, end) != (INTEGERS, FLOATS)
    }
    division = MinCut()
    for (start, end), cost in costs.items():
        division.add_edge(start, end, cost)
    divisions = [
        {INTEGERS, *some}
        for k in range(len(names) + 1)
        for some in itertools.combinations(names, k)
    ]
    best = min(divisions, key=lambda some: (cost_of(costs, some), -len(some)))
    if cost_of(costs, best) < math.inf:
        known = {name for edge in costs for name in edge} | {INTEGERS}
        assert division.source_side() == best & known


def cost_of(costs: Mapping[tuple[str | int, str | int], float], integers: Set[str | int]) -> float:
    return sum(c for (start, end), c in costs.items() if start in integers and end not in integers)
