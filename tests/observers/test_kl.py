"""The divergence against a loop over the talk's definition, and thresholds against raw histograms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import rel_entr

from ptq.core.errors import UsageError
from ptq.core.types import INT8, UINT8, FloatArray
from ptq.observers.histogram_cells import build_histogram_cells
from ptq.observers.kl import (
    BINS,
    build_magnitude_histogram,
    compute_kl_divergences,
    find_best_bin_count,
    kl,
)
from ptq.observers.stats import TensorStats


def stats_of(x: FloatArray) -> TensorStats:
    stats = TensorStats()
    stats.update(x)
    return stats


def divergence_by_definition(h: np.ndarray, i: int, levels: int) -> float:
    p = h[:i].copy()
    p[-1] += h[i:].sum()
    q = np.zeros(i)
    for level in range(levels):
        group = slice(i * level // levels, i * (level + 1) // levels)
        filled = h[group] > 0
        if filled.any():
            q[group][filled] = h[group].sum() / filled.sum()
    return float(np.sum(rel_entr(p / p.sum(), q / q.sum())))


@pytest.mark.parametrize("levels", [8, 30])
def test_divergences_are_those_of_the_definition_bin_by_bin(levels: int) -> None:
    rng = np.random.default_rng(levels)
    h = np.floor(rng.exponential(4, 90))
    h[[0, 50, 89]] = 0, 0, 3
    expected = [divergence_by_definition(h, i, levels) for i in range(levels, 91)]
    np.testing.assert_allclose(compute_kl_divergences(h, levels), expected, atol=1e-12)
    assert np.isinf(expected).any()  # bins that end in an empty one
    assert find_best_bin_count(h, levels) == levels + int(np.argmin(expected))


def normal(n: int) -> FloatArray:
    return np.random.default_rng(0).normal(size=n).astype(np.float32)


def relu(n: int) -> FloatArray:
    return np.maximum(normal(n), 0)


def laplace(n: int) -> FloatArray:
    return np.random.default_rng(0).laplace(size=n).astype(np.float32)


def silu(n: int) -> FloatArray:
    x = 4 * normal(n)
    return (x / (1 + np.exp(-x))).astype(np.float32)


@pytest.mark.parametrize("make", [normal, relu, laplace, silu])
def test_bins_are_those_of_a_raw_histogram_but_for_noise_inside_cells(make: object) -> None:
    x = make(200_000)  # type: ignore[operator]
    limit = float(np.abs(x).max())
    raw, _ = np.histogram(np.abs(x[x != 0]), BINS, (0, limit))
    estimated = build_magnitude_histogram(build_histogram_cells(stats_of(x)), limit)
    assert estimated.sum() == pytest.approx(raw.sum())
    assert np.abs(np.cumsum(estimated) - np.cumsum(raw)).max() < 0.002 * x.size


@pytest.mark.parametrize("make", [normal, relu, laplace, silu])
def test_the_threshold_is_near_that_of_the_raw_histogram(make: object) -> None:
    x = make(4_000_000)  # type: ignore[operator]
    limit = float(np.abs(x).max())
    raw, _ = np.histogram(np.abs(x[x != 0]), BINS, (0, limit))
    threshold = (find_best_bin_count(raw.astype(np.float64), 128) + 0.5) * limit / BINS
    span = kl()(stats_of(x), INT8, symmetric=True)
    assert max(-span.lo, span.hi) == pytest.approx(threshold, rel=0.05)


def test_zeros_do_not_move_the_threshold() -> None:
    x = np.abs(normal(100_000))
    padded = np.concatenate([x, np.zeros(900_000, np.float32)])
    assert kl()(stats_of(padded), INT8, symmetric=True) == kl()(stats_of(x), INT8, symmetric=True)


def test_a_far_outlier_is_clipped() -> None:
    x = np.concatenate([laplace(1_000_000), np.float32([200])])
    assert kl()(stats_of(x), INT8, symmetric=True).hi < 30


def test_values_of_one_sign_get_twice_the_levels_on_an_asymmetric_scale() -> None:
    stats = stats_of(relu(300_000))
    wide = kl(128)(stats, UINT8, symmetric=False)
    assert wide == kl(256)(stats, UINT8, symmetric=True)
    assert wide != kl(128)(stats, UINT8, symmetric=True)


@pytest.mark.parametrize("levels", [1, 1025])
def test_levels_that_make_no_sense_are_refused(levels: int) -> None:
    with pytest.raises(UsageError, match=r"levels .* is not between 2 and"):
        kl(levels)


def test_a_single_value_is_its_own_threshold() -> None:
    span = kl()(stats_of(np.float32([2.5])), INT8, symmetric=True)
    assert math.isclose(float(span.hi), 2.5)
