"""Pairs of products in int16 against a loop over them in Python's integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptq.kernels.int16_saturation import (
    MAX_PAIR_SUM,
    clip_pair_sums,
    compute_saturation_loss,
    find_largest_pair_sum,
    find_saturable_pairs,
)


def looped(a: list[int], b: list[int]) -> int:
    if len(a) % 2:
        a, b = [*a, 0], [*b, 0]
    pairs = zip(a[::2], b[::2], a[1::2], b[1::2], strict=True)
    return sum(min(max(p * q + r * s, -(2**15)), 2**15 - 1) for p, q, r, s in pairs)


@given(st.integers(0, 2**31))
def test_the_exact_sum_less_the_excess_is_the_saturated_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m, k, n = (int(v) for v in rng.integers(1, 8, 3))
    a = rng.integers(0, 256, (m, k), np.uint8)
    b = rng.choice(np.array([-128, -100, -64, 0, 65, 127], np.int8), (k, n))
    saturated = a.astype(int) @ b.astype(int) - compute_saturation_loss(a, b)
    for i, j in np.ndindex(m, n):
        assert saturated[i, j] == looped(a[i].tolist(), b[:, j].tolist())


@pytest.mark.parametrize(
    ("pair", "can"),
    [
        ((64, 64), False),
        ((64, 65), True),
        ((-64, -64), False),
        ((-65, -64), True),
        ((127, -128), False),
    ],
)
def test_a_pair_can_saturate_from_129_on(pair: tuple[int, int], can: bool) -> None:
    b = np.array(pair, np.int8)[:, None]
    assert bool(find_saturable_pairs(b).item()) is can
    worst = np.array([[255 * (w > 0) if pair[0] > 0 else 255 for w in pair]], np.uint8)
    assert bool(compute_saturation_loss(worst, b).any()) is can


@given(st.integers(0, 2**31))
def test_weights_within_bounds_cannot_saturate_and_hardly_change(seed: int) -> None:
    rng = np.random.default_rng(seed)
    *batch, k, n = (int(v) for v in rng.integers(1, 6, rng.integers(2, 4)))
    b = rng.integers(-127, 128, (*batch, k, n))
    made = clip_pair_sums(b)
    assert (find_largest_pair_sum(made) <= MAX_PAIR_SUM).all()
    for before, after in zip(b.reshape(-1, k, n), made.reshape(-1, k, n), strict=True):
        assert not find_saturable_pairs(after.astype(np.int8)).any()
        untouched = ~np.repeat(find_saturable_pairs(before.astype(np.int8)), 2, axis=0)[:k]
        assert np.array_equal(before[untouched], after[untouched])
        assert (np.abs(after) <= np.abs(before)).all()
        # of a pair that would saturate one changes, and no further than it must
        assert (np.count_nonzero(before != after, axis=0) == (~untouched).sum(0) // 2).all()
        assert (np.abs(after).sum(0) >= np.minimum(np.abs(before).sum(0), MAX_PAIR_SUM)).all()


def test_the_largest_sum_of_two_neighbours_is_of_one_sign() -> None:
    b = np.array([[100, -3, 5.5], [-90, -4, 0], [20, 90, 7], [30, -91, 8], [60, 1, -20]])
    assert find_largest_pair_sum(b).tolist() == [100, 91, 20]
