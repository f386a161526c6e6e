"""float32 operations against exact fractions, rounded by numpy once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ptq.kernels.float32 import fma

float32 = st.floats(-(2.0**40), 2.0**40, width=32, allow_subnormal=False)


def nearest_float32(exact: Fraction) -> np.float32:
    """The float32 nearest to an exact number, ties to the even one."""
    start = np.float32(float(exact))
    around = [np.nextafter(start, np.float32(s * np.inf)) for s in (-1, 1)]
    candidates = [start, *around]
    return min(
        candidates,
        key=lambda c: (abs(Fraction(float(c)) - exact), int(c.view(np.int32)) & 1),
    )


@given(float32, float32, float32)
def test_fma_rounds_the_exact_result_once(a: float, b: float, c: float) -> None:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    expected = nearest_float32(exact)
    assert fma(np.float32(a), np.float32(b), np.float32(c)) == expected


def test_fma_rounds_once_where_a_float64_sum_rounds_twice() -> None:
    # a·b = 1 − 2^-40, next to the tie between 2^24 + 2 and 2^24 + 4; float64 drops the 2^-40.
    a, b, c = np.float32(1 + 2.0**-20), np.float32(1 - 2.0**-20), np.float32(2**24 + 2)
    assert np.float32(np.float64(a) * np.float64(b) + np.float64(c)) == 2**24 + 4
    assert fma(a, b, c) == 2**24 + 2
    assert fma(-a, b, -c) == -(2**24) - 2


def test_fma_broadcasts() -> None:
    assert fma(np.ones((3, 1)), np.ones(4), 2.0).shape == (3, 4)
