"""Pairs of products in int16 against a loop over them in Python's integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptq.kernels.pairs import excess, saturable


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
    saturated = a.astype(int) @ b.astype(int) - excess(a, b)
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
    assert bool(saturable(b).item()) is can
    worst = np.array([[255 * (w > 0) if pair[0] > 0 else 255 for w in pair]], np.uint8)
    assert bool(excess(worst, b).any()) is can
