"""Rounding of floats to integers, against numbers from its definition."""

from __future__ import annotations

import numpy as np
import pytest

from ptq.core.rounding import round_half_away
from ptq.core.types import INT8, INT32, QuantParams


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_round_half_away_takes_ties_away_from_zero(dtype: type) -> None:
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997, -7.2, 7.8], dtype)
    expected = np.array([-3, -2, -1, 1, 2, 3, 0, -7, 8], dtype)
    np.testing.assert_array_equal(round_half_away(x), expected)


def test_round_half_away_keeps_the_largest_number_below_a_half() -> None:
    below = np.nextafter(np.array([0.5]), 0.0)
    assert round_half_away(below).item() == 0.0


def test_both_kernels_round_ties_their_way_and_saturate() -> None:
    x = np.array([0.25, 0.75, -0.25, -0.75, 1e30, -1e30], np.float32)
    params = QuantParams.per_tensor(0.5, 3, INT8)
    assert params.quantize_half_away(x).tolist() == [4, 5, 2, 1, 127, -128]
    assert params.quantize_by_inverse(x).tolist() == [3, 5, 3, 1, 127, -128]


def test_integers_of_32_bits_saturate() -> None:
    params = QuantParams.per_tensor(1.0, 0, INT32)
    assert params.quantize_half_away([1e30, 5e8]).tolist() == [2**31 - 1, 500_000_000]
