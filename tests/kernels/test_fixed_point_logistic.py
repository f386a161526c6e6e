"""The fixed-point logistic function and tanh against float64, over the whole of their input."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from ptq.kernels.fixed_point import logistic, tanh


@pytest.mark.parametrize("integer_bits", [0, 2, 4, 5])
def test_the_logistic_function_is_it_to_22_bits(integer_bits: int) -> None:
    x = np.concatenate([np.arange(-(2**15), 2**15) << 16, np.arange(-(2**12), 2**12)])[1:]
    error = logistic(x, integer_bits) / 2.0**31 - expit(x / 2.0 ** (31 - integer_bits))
    assert np.abs(error).max() < 2.0**-22


def test_the_logistic_function_of_opposites_sums_to_one() -> None:
    x = np.arange(1, 2**31, 65521)
    assert (logistic(x, 4) + logistic(-x, 4) == 2**31 - 1).all()
    assert logistic(np.zeros(1, np.int64), 4).item() == 2**30


@pytest.mark.parametrize("integer_bits", [0, 2, 4])
def test_tanh_is_it_to_20_bits(integer_bits: int) -> None:
    x = np.concatenate([np.arange(-(2**15), 2**15) << 16, np.arange(-(2**12), 2**12)])[1:]
    error = tanh(x, integer_bits) / 2.0**31 - np.tanh(x / 2.0 ** (31 - integer_bits))
    assert np.abs(error).max() < 2.0**-20


def test_tanh_of_opposites_are_opposites() -> None:
    x = np.arange(0, 2**31, 65521)
    assert (tanh(x, 4) == -tanh(-x, 4)).all()
