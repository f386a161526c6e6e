"""Oracle: all choices of integers tried one by one, and quadratic forms in float64."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest

from ptq.solver.rounding.gptq_rounding import DampedCholesky, output_error

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


def bounds(weights: np.ndarray, lo: float, hi: float) -> tuple[np.ndarray, np.ndarray]:
    shape = (weights.shape[0], 1, weights.shape[2])
    return np.full(shape, lo), np.full(shape, hi)


def test_errors_are_those_of_the_quadratic_form() -> None:
    covariance = correlated(70, groups=2)
    weights = np.random.default_rng(1).normal(0, 40, (2, 70, 5))
    factor, ends = DampedCholesky(covariance, DAMPING), bounds(weights, -127, 127)
    for found in (factor.round(weights, *ends), factor.round_to_nearest(weights, *ends)):
        np.testing.assert_allclose(found.error, loss(covariance, weights - found.integers))
    np.testing.assert_allclose(output_error(damped(covariance), weights), loss(covariance, weights))


@pytest.mark.parametrize("length", [9, 64, 65, 200])
def test_the_error_of_sums_of_inputs_that_go_together_falls_by_half(length: int) -> None:
    covariance = correlated(length)
    weights = np.random.default_rng(2).normal(0, 30, (1, length, 40))
    factor, ends = DampedCholesky(covariance, DAMPING), bounds(weights, -127, 127)
    rounded, nearest = factor.round(weights, *ends), factor.round_to_nearest(weights, *ends)
    assert rounded.error.sum() < 0.5 * nearest.error.sum()
    assert np.abs(rounded.integers - weights).max() < 5


def test_three_weights_come_close_to_the_best_of_all_choices() -> None:
    covariance = correlated(3)
    weights = np.random.default_rng(3).uniform(-3, 3, (1, 3, 200))
    choices = np.array(list(itertools.product(range(-5, 6), repeat=3)), np.float64)
    errors = weights[0].T[:, None, :] - choices[None]
    best = np.einsum("ock,kl,ocl->oc", errors, damped(covariance)[0], errors).min(axis=1)
    found = DampedCholesky(covariance, DAMPING).round(weights, *bounds(weights, -5, 5)).error[0]
    assert np.all(found >= best * (1 - 1e-9))
    assert found.sum() < 1.1 * best.sum()


def test_independent_inputs_are_rounded_to_the_nearest() -> None:
    weights = np.random.default_rng(4).normal(0, 30, (1, 12, 6))
    found = DampedCholesky(np.diag(np.arange(12.0))[None], DAMPING).round(
        weights, *bounds(weights, -127, 127)
    )
    np.testing.assert_array_equal(found.integers, np.rint(weights))


def test_integers_keep_within_their_bounds() -> None:
    weights = np.random.default_rng(5).normal(0, 30, (1, 20, 6))
    found = DampedCholesky(correlated(20), DAMPING).round(weights, *bounds(weights, -7, 5))
    assert found.integers.min() == -7
    assert found.integers.max() == 5


def test_inputs_that_never_varied_do_no_harm() -> None:
    weights = np.random.default_rng(6).normal(0, 30, (2, 8, 3))
    found = DampedCholesky(np.zeros((2, 8, 8)), DAMPING).round(weights, *bounds(weights, -127, 127))
    np.testing.assert_array_equal(found.integers, np.rint(weights))


def test_the_same_bits_on_any_number_of_blas_threads() -> None:
    script = (
        "import importlib.util, hashlib\n"
        f"spec = importlib.util.spec_from_file_location('t', {__file__!r})\n"
        "t = importlib.util.module_from_spec(spec); spec.loader.exec_module(t)\n"
        "weights = t.np.random.default_rng(1).normal(0, 40, (1, 700, 130))\n"
        "found = t.DampedCholesky(t.correlated(700), t.DAMPING).round(weights, *t.bounds(weights, -127, 127))\n"
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
    weights = np.random.default_rng(1).normal(0, 40, (2, 70, 5))
    ends = bounds(weights, -127, 127)
    stacked = DampedCholesky(np.tile(covariance, (2, 1, 1)), np.repeat(dampings, 2))
    arrays = (np.tile(array, (2, 1, 1)) for array in (weights, *ends))
    found = stacked.round(*arrays)
    alone = [DampedCholesky(covariance, damping).round(weights, *ends) for damping in dampings]
    np.testing.assert_array_equal(found.integers, np.concatenate([a.integers for a in alone]))
    np.testing.assert_array_equal(found.error, np.concatenate([a.error for a in alone]))
