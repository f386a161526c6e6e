"""Percentiles against numpy's on the raw data."""

from __future__ import annotations

import numpy as np
import pytest

from ptq.core.errors import UsageError
from ptq.core.types import INT8, FloatArray
from ptq.observers.percentile import percentile
from ptq.observers.stats import TensorStats

RNG = np.random.default_rng(5)
NORMAL = RNG.normal(0.5, 1, 300_000).astype(np.float32)


def stats_of(x: FloatArray) -> TensorStats:
    stats = TensorStats()
    stats.update(x)
    return stats


@pytest.mark.parametrize("p", [90.0, 99.0, 99.9, 99.99])
def test_both_ends_are_those_of_numpy_on_the_raw_data(p: float) -> None:
    span = percentile(p)(stats_of(NORMAL), INT8, symmetric=False)
    low, high = np.percentile(NORMAL, [(100 - p) / 2, 100 - (100 - p) / 2])
    assert span.lo == pytest.approx(low, abs=0.01)
    assert span.hi == pytest.approx(high, abs=0.01)


@pytest.mark.parametrize("p", [90.0, 99.0])
def test_an_end_has_no_bias_towards_an_edge_of_its_cell(p: float) -> None:
    errors = []
    for scale in np.geomspace(1, 2, 40):  # the end wanders through its cell
        x = (NORMAL * scale).astype(np.float32)
        high = np.percentile(x, 100 - (100 - p) / 2)
        errors.append(float(percentile(p)(stats_of(x), INT8, symmetric=False).hi) / high - 1)
    assert abs(np.mean(errors)) < 2**-7 / 10


def test_a_symmetric_range_is_the_percentile_of_absolute_values() -> None:
    span = percentile(99.5)(stats_of(NORMAL), INT8, symmetric=True)
    threshold = np.percentile(np.abs(NORMAL), 99.5)
    assert max(-span.lo, span.hi) == pytest.approx(threshold, abs=0.01)


def test_values_of_one_sign_are_cut_at_one_end_only() -> None:
    x = np.abs(NORMAL)
    span = percentile(99.5)(stats_of(x), INT8, symmetric=False)
    assert span.lo == 0
    assert span.hi == pytest.approx(np.percentile(x, 99.5), abs=0.01)


def test_distinct_values_give_an_exact_end() -> None:
    x = np.repeat(np.arange(101, dtype=np.float32), 10)
    assert percentile(95)(stats_of(x), INT8, symmetric=False).hi == 95
    assert percentile(100)(stats_of(x), INT8, symmetric=False).hi == 100


@pytest.mark.parametrize("p", [50.0, 99.0, 99.9, 99.99])
def test_at_most_the_stated_share_is_cut_off(p: float) -> None:
    x = np.clip(RNG.normal(3, 3, 100_000), 0, 6).astype(np.float32)
    span = percentile(p)(stats_of(x), INT8, symmetric=False)
    assert np.mean(x > float(span.hi)) <= (100 - p) / 100 + 1e-3
    assert span.hi == (6 if p > 90 else pytest.approx(np.percentile(x, p), abs=0.02))


@pytest.mark.parametrize("p", [0.0, -1.0, 100.5])
def test_a_percentile_that_makes_no_sense_is_refused(p: float) -> None:
    with pytest.raises(UsageError, match="not above 0"):
        percentile(p)
