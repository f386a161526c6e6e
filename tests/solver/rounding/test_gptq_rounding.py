"""Oracle: all choices of integers tried one by one, and quadratic forms in float64."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest

from ptq.solver.rounding.gptq_rounding import DampedCholesky, SortedCovariance, compute_output_error

DAMPING = 0.05


def correlated(length: int, seed: int = 0, groups: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(groups, 9 * length, 1)) * rng.normal(size=(groups, 1, length))
    rows = np.rint(20 * rows + 4 * rng.normal(size=(groups, 9 * length, length)))
    return rows.transpose(0, 2, 1) @ rows / rows.shape[1]


def damped(covariance: np.ndarray) -> np.ndarray:
    more = DAMPING * np.einsum("gkk->g", covariance) / covariance.shape[1]
    return covariance + more[:, None, None] * np.eye(covariance.shape[1])


def loss(covariance: np.ndarray, error: np.ndarray) -> np.ndarray:
    return np.einsum("gko,gkl,glo->go", error, damped(covariance), error)


def factor_of(covariance: np.ndarray, *dampings: float) -> DampedCholesky:
    return DampedCholesky(SortedCovariance(covariance), dampings or (DAMPING,))


def normal(seed: int, shape: tuple[int, ...], spread: float = 30) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, spread, shape).astype(np.float32)


def bounds(weights: np.ndarray, lo: float, hi: float) -> tuple[np.ndarray, np.ndarray]:
    shape = (weights.shape[0], 1, weights.shape[2])
    return np.full(shape, lo, np.float32), np.full(shape, hi, np.float32)


def test_errors_are_those_of_the_quadratic_form() -> None:
    covariance = correlated(70, groups=2)
    weights = normal(1, (2, 70, 5), 40)
    found = factor_of(covariance).round(weights, *bounds(weights, -127, 127))
    np.testing.assert_allclose(found.error, loss(covariance, weights - found.integers), rtol=1e-4)
    np.testing.assert_allclose(
        compute_output_error(damped(covariance), weights), loss(covariance, weights), rtol=1e-4
    )


@pytest.mark.parametrize("length", [9, 200])
def test_errors_are_compared_sum_by_sum(length: int) -> None:
    covariance, errors = correlated(length, groups=2), normal(1, (2, length, 5), 0.3)
    factor, exact = factor_of(covariance), loss(covariance, errors)
    for share in (0.999, 0.5, np.array([[0.999, 1.001, 0.999, 1.001, 0.999]])):
        more = factor.has_more_error(errors, (share * exact).astype(np.float32))
        np.testing.assert_array_equal(more, np.broadcast_to(share, exact.shape) < 1)
    assert not factor.has_more_error(errors, (1.001 * exact).astype(np.float32)).any()


@pytest.mark.parametrize("length", [9, 64, 65, 200])
def test_the_error_of_sums_of_inputs_that_go_together_falls_by_half(length: int) -> None:
    covariance = correlated(length)
    weights = normal(2, (1, length, 40))
    rounded = factor_of(covariance).round(weights, *bounds(weights, -127, 127))
    nearest = loss(covariance, weights - np.rint(weights).clip(-127, 127))
    assert rounded.error.sum() < 0.5 * nearest.sum()
    assert np.abs(rounded.integers - weights).max() < 5


def test_three_weights_come_close_to_the_best_of_all_choices() -> None:
    covariance = correlated(3)
    weights = np.random.default_rng(3).uniform(-3, 3, (1, 3, 200)).astype(np.float32)
    choices = np.array(list(itertools.product(range(-5, 6), repeat=3)), np.float64)
    errors = weights[0].T[:, None, :] - choices[None]
    best = np.einsum("ock,kl,ocl->oc", errors, damped(covariance)[0], errors).min(axis=1)
    found = factor_of(covariance).round(weights, *bounds(weights, -5, 5)).error[0]
    assert np.all(found >= best * (1 - 1e-5))
    assert found.sum() < 1.1 * best.sum()


def test_independent_inputs_are_rounded_to_the_nearest() -> None:
    weights = normal(4, (1, 12, 6))
    found = factor_of(np.diag(np.arange(12.0))[None]).round(weights, *bounds(weights, -127, 127))
    np.testing.assert_array_equal(found.integers, np.rint(weights))


def test_integers_keep_within_their_bounds() -> None:
    weights = normal(5, (1, 20, 6))
    found = factor_of(correlated(20)).round(weights, *bounds(weights, -7, 5))
    assert found.integers.min() == -7
    assert found.integers.max() == 5


def test_inputs_that_never_varied_do_no_harm() -> None:
    weights = normal(6, (2, 8, 3))
    found = factor_of(np.zeros((2, 8, 8))).round(weights, *bounds(weights, -127, 127))
    np.testing.assert_array_equal(found.integers, np.rint(weights))


def test_the_same_bits_on_any_number_of_blas_threads() -> None:
    script = (
        "import importlib.util, hashlib\n"
        f"spec = importlib.util.spec_from_file_location('t', {__file__!r})\n"
        "t = importlib.util.module_from_spec(spec); spec.loader.exec_module(t)\n"
        "weights = t.normal(1, (1, 700, 130), 40)\n"
        "found = t.factor_of(t.correlated(700)).round(weights, *t.bounds(weights, -127, 127))\n"
        "print(hashlib.sha256(found.integers.tobytes() + found.error.tobytes()).hexdigest())\n"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "2", "4")
    }
    assert len(found) == 1


def test_groups_with_their_own_damping_are_rounded_as_each_by_itself() -> None:
    """Against one factor a damping, to the bit."""
    covariance, dampings = correlated(70, groups=2), [0.02, 1.5]
    weights = normal(1, (2, 70, 5), 40)
    ends = bounds(weights, -127, 127)
    stacked = factor_of(covariance, *dampings)
    arrays = (np.tile(array, (2, 1, 1)) for array in (weights, *ends))
    found = stacked.round(*arrays)
    alone = [factor_of(covariance, damping).round(weights, *ends) for damping in dampings]
    np.testing.assert_array_equal(found.integers, np.concatenate([a.integers for a in alone]))
    np.testing.assert_array_equal(found.error, np.concatenate([a.error for a in alone]))
