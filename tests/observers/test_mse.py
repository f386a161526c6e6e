"""The chosen range against a brute-force search over the raw data, in float64."""

from __future__ import annotations

import numpy as np
import pytest

from ptq.core.types import INT8, UINT8, FloatArray, QType, QuantParams, Range
from ptq.observers.mse import mse
from ptq.observers.qparams import compute_asymmetric_qparams, compute_symmetric_qparams
from ptq.observers.stats import TensorStats

RNG = np.random.default_rng(2)
SIZE = 60_000
DATA = {
    "normal": RNG.normal(size=SIZE),
    "relu6": np.clip(RNG.normal(1, 3, SIZE), 0, 6),
    "pixels": (RNG.integers(0, 256, SIZE) / 255 - 0.2860) / 0.3530,
    "laplace": RNG.laplace(size=SIZE),
    "skewed": RNG.gamma(0.5, 1, SIZE) - 0.1,
    "heavy tails": RNG.standard_t(3, SIZE),
    "negative": -np.abs(RNG.normal(size=SIZE)),
    "outliers": np.concatenate([RNG.normal(size=SIZE), [60.0, -25.0]]),
}


def true_error(x: FloatArray, params: QuantParams) -> float:
    q = params.quantize(x).astype(np.int64)
    real = float(params.scale) * (q - int(params.zero_point))
    return float(np.square(x - real).mean())


def stats_of(x: FloatArray) -> TensorStats:
    stats = TensorStats()
    stats.update(x)
    return stats


@pytest.mark.parametrize("qtype", [INT8, UINT8], ids=["int8", "uint8"])
@pytest.mark.parametrize("kind", DATA)
def test_no_pair_of_ends_of_a_raw_search_is_better_by_a_tenth_of_a_decibel(
    kind: str, qtype: QType
) -> None:
    x = DATA[kind].astype(np.float32)
    least, most = min(x.min(), 0), max(x.max(), 0)
    raw = min(
        true_error(x, compute_asymmetric_qparams(Range(least * a, most * b), qtype))
        for a in np.linspace(0.1, 1, 19)
        for b in np.linspace(0.1, 1, 19)
    )
    found = true_error(
        x, compute_asymmetric_qparams(mse(stats_of(x), qtype, symmetric=False), qtype)
    )
    assert 10 * np.log10(found / raw) < 0.1


@pytest.mark.parametrize("kind", DATA)
def test_no_threshold_of_a_raw_search_is_better_by_a_tenth_of_a_decibel(kind: str) -> None:
    x = DATA[kind].astype(np.float32)
    thresholds = np.abs(x).max() * np.linspace(0.05, 1, 200)
    raw = min(true_error(x, compute_symmetric_qparams(threshold, INT8)) for threshold in thresholds)
    found = true_error(x, compute_symmetric_qparams(mse(stats_of(x), INT8, symmetric=True), INT8))
    assert 10 * np.log10(found / raw) < 0.1


def test_ends_are_searched_independently() -> None:
    x = np.concatenate([RNG.normal(size=1_000_000), [9.0]]).astype(np.float32)
    span = mse(stats_of(x), INT8, symmetric=False)
    assert span.hi < 6
    assert span.lo == pytest.approx(-3.7, abs=0.3)


def test_values_that_fall_on_the_grid_keep_their_whole_range() -> None:
    x = np.arange(256, dtype=np.float32)
    assert mse(stats_of(x), UINT8, symmetric=False) == Range(0, 255)
