"""Oracle: products of rounded numbers in float64, on samples that no factor was chosen on."""

from __future__ import annotations

import numpy as np
import pytest

from ptq.observers.channel_spread import ChannelSpread
from ptq.optimization.smoothquant_factors import compute_smoothquant_factors

ROWS, CHANNELS, SUMS = 400, 48, 32
ALL = np.ones(CHANNELS, bool)


def samples(seed: int, reach: np.ndarray) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=(ROWS, CHANNELS)) * reach).astype(np.float32)


def weights(heights: np.ndarray) -> np.ndarray:
    matrix = np.random.default_rng(7).normal(size=(CHANNELS, SUMS)) * heights[:, None]
    return matrix.astype(np.float32)


def decibels(x: np.ndarray, weight: np.ndarray, by: np.ndarray) -> float:
    """Signal over error of the sums, activations rounded to 8 bits and weights to 8 bits a sum."""
    scaled, rows = x.astype(np.float64) * by, weight.astype(np.float64) / by[:, None]
    step = (scaled.max() - scaled.min()) / 255
    steps = np.abs(rows).max(axis=0) / 127
    truth = x.astype(np.float64) @ weight
    error = (np.rint(scaled / step) * step) @ (np.rint(rows / steps) * steps) - truth
    return float(10 * np.log10(np.square(truth).sum() / np.square(error).sum()))


@pytest.mark.parametrize("trust", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_equalized_channels_lose_less(power, trust):
    reach = 2.0 ** np.random.default_rng(1).uniform(-4, 2, CHANNELS)
    weight = weights(reach**-power)
    by = compute_smoothquant_factors(
        ChannelSpread.from_array(samples(2, reach)), weight, ALL, trust
    )
    fresh = samples(3, reach)
    assert decibels(fresh, weight, by) > decibels(fresh, weight, np.ones(CHANNELS)) + 2
    assert np.log2(by).mean() == pytest.approx(0, abs=0.125)
    noisy = ChannelSpread.from_array(samples(2, reach) * np.float32(1 + 1e-6))
    np.testing.assert_array_equal(compute_smoothquant_factors(noisy, weight, ALL, trust), by)


def test_channels_that_are_alike_lose_as_much_as_they_did():
    alike = np.ones(CHANNELS)
    weight = weights(alike)
    by = compute_smoothquant_factors(ChannelSpread.from_array(samples(2, alike)), weight, ALL, 0.0)
    fresh = samples(3, alike)
    assert decibels(fresh, weight, by) == pytest.approx(decibels(fresh, weight, alike), abs=0.5)


def test_what_is_not_kept_has_the_factor_0_and_no_say():
    reach = np.where(np.arange(CHANNELS) == 5, 1000.0, 1 + np.arange(CHANNELS) / 10)
    kept = np.arange(CHANNELS) != 5
    spread, weight = ChannelSpread.from_array(samples(2, reach)), weights(np.ones(CHANNELS))
    by = compute_smoothquant_factors(spread, weight, kept, 0.5)
    assert (by == 0).tolist() == (~kept).tolist()
    alone = compute_smoothquant_factors(
        ChannelSpread.from_array(samples(2, reach)[:, kept]), weight[kept], ALL[kept], 0.5
    )
    np.testing.assert_array_equal(by[kept], alone)
    assert not compute_smoothquant_factors(spread, weight, np.zeros(CHANNELS, bool), 0.5).any()


def test_a_channel_without_values_or_weights_is_no_reason_to_fail():
    reach = np.where(np.arange(CHANNELS) % 7 == 0, 0.0, 1.0)
    by = compute_smoothquant_factors(
        ChannelSpread.from_array(samples(2, reach)), weights(1 - reach), ALL, 1.0
    )
    assert np.isfinite(by).all()
    assert (by > 0).all()


def test_the_spread_of_two_arrays_is_that_of_both():
    x = samples(4, np.ones(CHANNELS)).reshape(2, -1, CHANNELS)
    both, whole = (
        ChannelSpread.from_array(x[0]) | ChannelSpread.from_array(x[1]),
        ChannelSpread.from_array(x),
    )
    np.testing.assert_array_equal(both.least, whole.least)
    np.testing.assert_array_equal(both.greatest, whole.greatest)
    np.testing.assert_allclose(both.sum_of_squares, whole.sum_of_squares, rtol=1e-12)
    assert both.count == whole.count == ROWS
    assert whole.is_finite
    assert not (
        whole | ChannelSpread.from_array(np.full((1, CHANNELS), np.nan, np.float32))
    ).is_finite
