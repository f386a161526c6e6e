"""Oracle: normal equations solved by numpy, and fresh rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ptq.observers.covariance import Covariance
from ptq.optimization.compensation_fit import (
    RIDGES,
    InputPairs,
    _compute_weight_changes,
    fit_compensation,
)
from ptq.solver.rounding.gptq_rounding import factorize_cholesky, solve_cholesky

INPUTS, SUMS, ROWS = 6, 4, 40


def weights(seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(size=(1, INPUTS, SUMS))


def rows(seed: int, distortion: Any, samples: int) -> list[tuple[Any, Any]]:
    """(u, v) of each sample: codes, and what became of them."""
    rng = np.random.default_rng(seed)
    mixing = np.random.default_rng(99).normal(size=(INPUTS, INPUTS)) * 20
    u = np.rint(rng.normal(size=(samples, 1, ROWS, INPUTS)) @ mixing).clip(-120, 120)
    v = np.rint(distortion(u)).clip(-127, 127)
    codes = (a.astype(np.int16).swapaxes(2, 3) for a in (u, v))
    return list(zip(*codes, strict=True))


def pairs(distortion: Any, inputs: tuple[slice, ...] = (slice(0, INPUTS),)) -> InputPairs:
    sizes = [(1, 2 * (some.stop - some.start)) for some in inputs]
    found = InputPairs(inputs, [Covariance(*size) for size in sizes], rows(1, distortion, 16))
    for u, v in rows(2, distortion, 48):
        found.add_training(u, v)
    return found


def error(distortion: Any, wanted: Any, made: Any, *, centred: bool = False) -> float:
    fresh = rows(3, distortion, 50)
    u, v = (np.concatenate([pair[i][0].T for pair in fresh]) for i in (0, 1))
    left = u @ wanted[0] - v @ made[0]
    return float(np.square(left - centred * left.mean(axis=0)).sum())


def skewed(u: Any) -> Any:
    """A tenth of each input gone, and part of it in the next."""
    return 0.9 * u + 0.2 * np.roll(u, 1, axis=-1)


def test_weights_compensate_the_input_error_that_the_rounded_inputs_predict():
    w = weights()
    fit = fit_compensation(w, pairs(skewed), centred=False)
    assert fit is not None
    before, after = error(skewed, w, w), error(skewed, w, fit.weights)
    assert after < 0.01 * before
    assert fit.gain_db == pytest.approx(10 * np.log10(before / after), abs=1.5)


def test_they_are_the_solution_of_the_normal_equations_with_a_ridge():
    w, found = weights(), pairs(skewed)
    fit = fit_compensation(w, found, centred=False)
    assert fit is not None
    every = [*rows(1, skewed, 16), *rows(2, skewed, 48)]
    u, v = (np.concatenate([pair[i][0].T for pair in every]).astype(np.float64) for i in (0, 1))
    of_v = v.T @ v / len(v)
    solutions = []
    for ridge in RIDGES:
        damped = of_v + np.eye(INPUTS) * (ridge * np.trace(of_v) / INPUTS + 1e-9)
        solutions.append(w[0] + np.linalg.solve(damped, v.T @ (u - v) / len(v) @ w[0]))
    nearest = min(solutions, key=lambda s: float(np.abs(s - fit.weights[0]).max()))
    np.testing.assert_allclose(fit.weights[0], nearest, rtol=1e-9, atol=1e-12)


def test_a_shift_alone_is_left_to_the_bias():
    def shifted(u: Any) -> Any:
        return u + 3

    w = weights()
    fit = fit_compensation(w, pairs(shifted), centred=True)
    assert fit is not None
    np.testing.assert_array_equal(fit.weights, w)
    assert error(shifted, w, fit.weights, centred=True) < 0.01 * error(shifted, w, w)


def test_inputs_that_do_not_vary_gain_a_finite_number_of_decibels():
    def fixed(u: Any) -> Any:
        u[:] = 5
        return u + 3

    fit = fit_compensation(weights(), pairs(fixed), centred=True)
    assert fit is not None
    assert fit.gain_db == pytest.approx(100)


def test_noise_that_the_inputs_do_not_predict_changes_nothing():
    def noisy(u: Any) -> Any:
        return u + np.random.default_rng(4).integers(-1, 2, u.shape)

    assert fit_compensation(weights(), pairs(noisy), centred=True) is None


def test_inputs_that_are_the_same_change_nothing():
    assert fit_compensation(weights(), pairs(lambda u: u), centred=True) is None


def test_too_few_held_out_samples_decide_nothing():
    found = pairs(skewed)
    assert (
        fit_compensation(
            weights(),
            InputPairs(found.input_slices, found.training, found.held_out[:7]),
            centred=True,
        )
        is None
    )


def test_independent_blocks_are_solved_independently():
    def damped(u: Any) -> Any:
        return 0.8 * u

    w, halves = weights(), (slice(0, 3), slice(3, INPUTS))
    fit = fit_compensation(w, pairs(damped, halves), centred=False)
    assert fit is not None
    assert error(damped, w, fit.weights) < 0.01 * error(damped, w, w)


@pytest.mark.parametrize("centred", [True, False])
def test_fewer_rows_than_inputs_give_the_same_changes_as_moments(centred: bool):
    rng = np.random.default_rng(6)
    u = rng.integers(-120, 121, (2, 30, 12)).astype(np.int16)
    v = np.rint(0.9 * u + 0.1 * np.roll(u, 1, axis=1)).astype(np.int16)
    w = rng.normal(size=(2, 30, SUMS))
    by_rows, by_moments = (InputPairs([slice(0, 30)], [Covariance(2, 60)], []) for _ in range(2))
    for found in (by_rows, by_moments):
        found.add_training(u, v)
    by_moments.training[0].flush()
    changes = _compute_weight_changes(by_rows, w, RIDGES, centred=centred)
    assert by_rows.training[0].rows is not None
    for change, expected in zip(
        changes, _compute_weight_changes(by_moments, w, RIDGES, centred=centred), strict=True
    ):
        np.testing.assert_allclose(change, expected, rtol=1e-8, atol=1e-10)


def test_substitution_solves_what_was_factored():
    rng = np.random.default_rng(5)
    root = rng.normal(size=(3, 70, 80))
    matrix, right = root @ root.transpose(0, 2, 1), rng.normal(size=(3, 70, 9))
    solved = solve_cholesky(factorize_cholesky(matrix), right)
    np.testing.assert_allclose(solved, np.linalg.solve(matrix, right), rtol=1e-6, atol=1e-9)
