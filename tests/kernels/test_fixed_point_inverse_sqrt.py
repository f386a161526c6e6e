"""Fixed-point 1/sqrt(x) against float64; its bits are held by LiteRT's vectors."""

from __future__ import annotations

import numpy as np

from ptq.kernels.fixed_point import inverse_sqrt

RNG = np.random.default_rng(0)


def test_the_inverse_square_root_is_it_to_19_bits() -> None:
    x = np.concatenate([np.arange(2, 2**16), RNG.integers(2**16, 2**31, 4000)])
    multiplier, shift = inverse_sqrt(x)
    np.testing.assert_allclose(multiplier * 2.0 ** (shift - 31), x**-0.5, rtol=2.0**-19)


def test_the_inverse_square_root_of_nothing_is_one() -> None:
    multiplier, shift = inverse_sqrt(np.array([0, 1]))
    assert multiplier.tolist() == [2**31 - 1] * 2
    assert shift.tolist() == [0, 0]
