"""Fixed-point exp and 1/x against float64; their bits are held by LiteRT's vectors."""

from __future__ import annotations

import numpy as np
import pytest

from ptq.kernels.fixed_point import (
    exp_of_negative,
    leading_zeros,
    one_over_one_plus,
    reciprocal,
    rounding_half_sum,
)

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("integer_bits", [0, 1, 4, 5])
def test_exp_of_negative_numbers_is_exp_to_22_bits(integer_bits: int) -> None:
    x = -np.concatenate([np.arange(2**16) << 15, np.arange(2**13), RNG.integers(0, 2**31, 4000)])
    error = exp_of_negative(x, integer_bits) / 2.0**31 - np.exp(x / 2.0 ** (31 - integer_bits))
    assert np.abs(error).max() < 2.0**-22


def test_exp_of_zero_is_the_largest_integer() -> None:
    assert exp_of_negative(np.zeros(1, np.int64)).item() == 2**31 - 1


def test_one_over_one_plus_x_is_it_to_27_bits() -> None:
    x = np.concatenate([np.arange(2**16) << 15, RNG.integers(0, 2**31, 4000)])
    error = one_over_one_plus(x) / 2.0**31 - 1 / (1 + x / 2.0**31)
    assert np.abs(error).max() < 2.0**-27


def test_a_reciprocal_is_scaled_by_the_bits_above_one() -> None:
    x = np.concatenate([np.arange(1, 2**16), RNG.integers(2**16, 2**31, 4000)])
    value, over_one = reciprocal(x, 12)
    np.testing.assert_allclose(value / 2.0**31 / 2.0**over_one, 1 / (x / 2.0**19), rtol=2.0**-26)


def test_leading_zeros_are_those_of_32_bits() -> None:
    x = np.array([1, 2, 3, 2**30 - 1, 2**30, 2**31 - 1], np.int64)
    assert leading_zeros(x).tolist() == [32 - int(v).bit_length() for v in x]


def test_the_half_sum_takes_ties_away_from_zero() -> None:
    assert rounding_half_sum(np.array([3, -3, 4, -4]), 0).tolist() == [2, -2, 2, -2]
