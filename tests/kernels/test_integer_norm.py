"""Standardized integers against float64, within the bound that the module states."""

from __future__ import annotations

import numpy as np
import pytest

from ptq.kernels.integer_norm import MAX_COUNT, standardize

RNG = np.random.default_rng(0)


def exact(q: np.ndarray, epsilon: float) -> np.ndarray:
    centred = q - q.mean(axis=-1, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + epsilon))


@pytest.mark.parametrize("n", [2, 3, 17, 768, 4096])
@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 0.3, 50.0, 1e7])
def test_standardized_integers_are_within_the_bound(n: int, epsilon: float) -> None:
    spread = RNG.choice([1, 8, 128], (40, 1))
    q = np.rint(RNG.uniform(-1, 1, (40, n)) * spread + RNG.integers(-100, 100, (40, 1)))
    q[0, :], q[0, 0] = -128, 127  # the largest value that n integers can give
    q[1:, 0] = q[1:, 1] + 1  # none are all alike
    expected = exact(q, epsilon)
    error = np.abs(standardize(q.astype(np.int64), (1,), epsilon) / 2.0**20 - expected)
    assert (error <= 2.0**-18 * np.abs(expected) + 2.0**-20).all()


def test_the_most_values_and_the_widest_spread_fit() -> None:
    q = np.where(np.arange(MAX_COUNT) % 2, 127, -128)[None].astype(np.int64)
    np.testing.assert_allclose(
        standardize(q, (1,), 0.0) / 2.0**20, exact(q, 0.0), rtol=2.0**-18, atol=2.0**-20
    )


def test_values_that_are_all_alike_are_zero() -> None:
    q = np.full((2, 5), 77, np.int64)
    assert not standardize(q, (1,), 0.0).any()
    assert not standardize(q, (1,), 1e-3).any()
