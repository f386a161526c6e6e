"""Which nodes to leave float, and in which order; the oracle is arithmetic done by hand."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from ptq.optimization.mixed_precision.attribution.float_candidates import (
    count_fused_as_one,
    find_cheap_extras,
    find_cheapest_cover,
    list_greedy_candidates,
    rank_candidates,
)
from ptq.rewrite.instrument.error_sources import ErrorSource

Given = tuple[list[ErrorSource], np.ndarray]


def _given(*sources: tuple[str, set[str], float]) -> Given:
    made = [ErrorSource("tensor", name, "", frozenset(nodes)) for name, nodes, _ in sources]
    return made, np.array([share for *_, share in sources])


def _any(nodes: frozenset[str]) -> bool:
    return True


def _each(more: frozenset[str], floats: frozenset[str]) -> float:
    """One for each node, ten for z."""
    return sum(10.0 if node == "z" else 1.0 for node in more)


def test_a_move_wins_all_that_vanishes_with_it() -> None:
    moves = rank_candidates(*_given(("t", {"a", "b"}, 3.0), ("u", {"a"}, 2.0), ("v", {"c"}, 4.0)))
    assert [(sorted(m.nodes), m.error_share) for m in moves] == [
        (["a", "b"], 5.0),
        (["c"], 4.0),
        (["a"], 2.0),
    ]
    assert moves[0].source.tensor == "t"


def test_moves_follow_by_what_they_win_for_what_they_cost() -> None:
    given = _given(("t", {"a", "b"}, 5.0), ("u", {"c"}, 4.0), ("v", {"b", "c"}, 3.0))
    moves = list(list_greedy_candidates(*given, _each, _any))
    assert [sorted(m.nodes) for m in moves] == [["c"], ["a", "b"]]
    assert [m.error_share for m in moves] == [4.0, 8.0]
    dear = _given(("t", {"z"}, 5.0), ("u", {"a"}, 1.0))
    assert [sorted(m.nodes) for m in list_greedy_candidates(*dear, _each, _any)] == [["a"], ["z"]]


def test_moves_end_where_so_many_nodes_are_float() -> None:
    given, both = _given(("t", {"a", "b"}, 5.0), ("u", {"c"}, 1.0)), frozenset(["a", "b"])

    def at_most_one(fused: dict[str, frozenset[str]]) -> list[list[str]]:
        moves = list_greedy_candidates(
            *given, _each, lambda nodes: count_fused_as_one(nodes, fused) <= 1
        )
        return [sorted(m.nodes) for m in moves]

    assert at_most_one({}) == [["c"]]
    fused = {"a": both, "b": both}
    assert count_fused_as_one(frozenset(["a", "b", "c"]), fused) == 2
    assert at_most_one(fused) == [["a", "b"]]


def test_what_wins_nothing_is_no_move() -> None:
    assert list(list_greedy_candidates(*_given(("t", {"a"}, 0.0)), _each, _any)) == []


def _sources(*touching: str) -> list[ErrorSource]:
    return [ErrorSource("tensor", nodes, "", frozenset(nodes)) for nodes in touching]


def test_what_wins_enough_for_the_least_is_taken() -> None:
    shares = np.array([[5.0, 5.0, 1.0]])
    assert find_cheapest_cover(_sources("z", "a", "b"), shares, np.array([4.0]), _each) == [
        frozenset("a")
    ]


def test_a_step_that_later_ones_make_needless_is_taken_back() -> None:
    shares = np.array([[2.0, 7.0]])  # "a" wins more for its cost, but "z" alone is enough
    assert find_cheapest_cover(_sources("a", "z"), shares, np.array([7.0]), _each) == [
        frozenset("z")
    ]


def test_every_output_gets_what_it_needs_and_no_more() -> None:
    sources, needs = _sources("a", "b", "c"), np.array([3.0, 0.0, 2.0])
    shares = np.array([[3.0, 1.0, 0.0], [0.0, 9.0, 0.0], [0.0, 0.0, 2.0]])
    assert sorted(map(sorted, find_cheapest_cover(sources, shares, needs, _each))) == [["a"], ["c"]]


def test_what_can_not_be_won_is_not_waited_for() -> None:
    assert find_cheapest_cover(_sources("a"), np.array([[1.0]]), np.array([2.0]), _each) == [
        frozenset("a")
    ]
    assert find_cheapest_cover(_sources("a"), np.array([[0.0]]), np.array([2.0]), _each) == []


@pytest.mark.parametrize("seed", range(8))
def test_no_step_is_superfluous_and_few_are_cheaper_than_all_subsets_of_nodes_allow(
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    names = ["ab", "bc", "cd", "de", "a", "b", "c", "d", "e"]
    shares, needs = rng.exponential(1.0, (2, len(names))), np.array([4.0, 2.0])

    def won(nodes: frozenset[str]) -> np.ndarray:
        return sum(
            (s for n, s in zip(names, shares.T, strict=True) if set(n) <= nodes), np.zeros(2)
        )

    steps = find_cheapest_cover(_sources(*names), shares, needs, _each)
    nodes = frozenset[str]().union(*steps)
    enough = [
        subset
        for count in range(6)
        for subset in map(frozenset, combinations("abcde", count))
        if (won(subset) >= needs).all()
    ]
    if not enough:
        assert nodes == frozenset("abcde")
        return
    assert (won(nodes) >= needs - 1e-9).all()
    assert all((won(nodes - step) < needs).any() for step in steps)
    assert len(nodes) <= min(map(len, enough)) + 1


def test_beside_what_is_needed_goes_what_wins_much_for_next_to_nothing() -> None:
    sources = _sources("a", "b", "c", "z")
    shares = np.array([[9.0, 0.5, 0.01, 0.5], [9.0, 0.0, 0.0, 0.0]])
    found = find_cheap_extras(sources, shares, frozenset("a"), _each, least=0.1, most=1.0)
    assert found == frozenset("b")
    assert (
        find_cheap_extras(sources, shares, frozenset("a"), _each, least=0.6, most=math.inf)
        == frozenset()
    )
    assert find_cheap_extras(
        sources, shares, frozenset("a"), _each, least=0.1, most=11.0
    ) == frozenset("bz")
