"""Mantissas and rounding shifts against exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from ptq.kernels.multiplier_shift import shift_right, to_mantissa_and_shift


@given(st.floats(2.0**-100, 2.0**100), st.sampled_from([7, 8, 16, 31]))
def test_the_mantissa_is_the_nearest_of_its_bits(real: float, bits: int) -> None:
    m, r = (int(v) for v in to_mantissa_and_shift(real, bits))
    assert 2 ** (bits - 1) <= m < 2**bits
    unit = 1 / Fraction(2) ** r
    # one that rounds up to a power of two is written with a coarser unit, and is exact to the finer one's half
    assert abs(m * unit - Fraction(real)) <= unit / 2


@given(st.floats(2.0**-100, 2.0**100), st.sampled_from([7, 8, 16, 31]))
def test_its_relative_error_is_at_most_2_to_the_minus_bits(real: float, bits: int) -> None:
    m, r = (int(v) for v in to_mantissa_and_shift(real, bits))
    assert abs(m / Fraction(2) ** r - Fraction(real)) <= Fraction(real) / 2**bits


def test_what_rounds_up_to_a_power_of_two_is_carried() -> None:
    assert tuple(map(int, to_mantissa_and_shift(255.9, 8))) == (128, -1)


def test_zero_has_mantissa_zero() -> None:
    assert tuple(map(int, to_mantissa_and_shift(0.0, 8))) == (0, 0)


def test_an_array_is_written_element_by_element() -> None:
    m, r = to_mantissa_and_shift(np.array([0.5, 3.0]), 8)
    assert m.tolist() == [128, 192]
    assert r.tolist() == [8, 6]


@given(st.integers(-(2**62), 2**62 - 1), st.integers(0, 100))
@example(-(2**62), 63)
@example(2**62 - 1, 63)
def test_a_right_shift_rounds_to_the_nearest_ties_upwards(x: int, bits: int) -> None:
    assert int(shift_right(np.int64(x), bits)) == floor(Fraction(x, 2**bits) + Fraction(1, 2))


def test_a_negative_shift_is_a_left_one() -> None:
    assert shift_right(np.array([3, -3]), np.array([-2, 1])).tolist() == [12, -1]
