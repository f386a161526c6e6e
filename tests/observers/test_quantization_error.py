"""Errors estimated from statistics against the errors of the raw data in float64."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from ptq.core.errors import StatsError
from ptq.core.types import INT8, UINT8, FloatArray, QType, QuantParams, Range
from ptq.observers import OBSERVERS
from ptq.observers.qparams import compute_asymmetric_qparams, compute_symmetric_qparams
from ptq.observers.quantization_error import compute_quantization_error
from ptq.observers.stats import TensorStats

SIZE = 400_000


def data(kind: str) -> FloatArray:
    rng = np.random.default_rng(7)
    made = {
        "gaussian": lambda: rng.normal(size=SIZE),
        "shifted gaussian": lambda: rng.normal(2.0, 0.7, SIZE),
        "relu6": lambda: np.clip(rng.normal(2, 3, SIZE), 0, 6),
        "relu6, mostly zero": lambda: np.clip(rng.normal(-2, 3, SIZE), 0, 6),
        "pixels": lambda: (rng.integers(0, 256, SIZE) / 255 - 0.2860) / 0.3530,
        "dark pixels": lambda: (rng.binomial(255, 0.2, SIZE) / 255 - 0.2860) / 0.3530,
    }
    return np.asarray(made[kind](), np.float32)


KINDS = [
    "gaussian",
    "shifted gaussian",
    "relu6",
    "relu6, mostly zero",
    "pixels",
    "dark pixels",
]


@dataclass(frozen=True)
class Raw:
    rounding: float
    clipping: float
    clipped: int


def raw_error(x: FloatArray, params: QuantParams) -> Raw:
    q = params.quantize(x).astype(np.int64)
    scale, zero_point = float(params.scale), int(params.zero_point)
    real = x.astype(np.float64)
    squared = np.square(real - scale * (q - zero_point))
    outside = (real > scale * (params.qtype.hi - zero_point + 0.5)) | (
        real < scale * (params.qtype.lo - zero_point - 0.5)
    )
    clipping = squared[outside].sum() / x.size
    return Raw(squared.sum() / x.size - clipping, clipping, int(outside.sum()))


def stats_of(x: FloatArray) -> TensorStats:
    stats = TensorStats()
    stats.update(x)
    return stats


@pytest.mark.parametrize("mirrored", [False, True], ids=["asymmetric", "symmetric"])
@pytest.mark.parametrize("qtype", [INT8, UINT8], ids=["int8", "uint8"])
@pytest.mark.parametrize("method", ["minmax", "percentile", "mse", "kl"])
@pytest.mark.parametrize("kind", KINDS)
def test_clipping_and_rounding_error_are_within_3_percent_of_the_true_ones(
    kind: str, method: str, qtype: QType, mirrored: bool
) -> None:
    x = data(kind)
    stats = stats_of(x)
    span = OBSERVERS[method](stats, qtype, symmetric=mirrored)
    params = (compute_symmetric_qparams if mirrored else compute_asymmetric_qparams)(span, qtype)
    estimate, true = compute_quantization_error(stats, params), raw_error(x, params)
    assert estimate.rounding == pytest.approx(true.rounding, rel=0.03)
    if true.clipped >= 20:  # fewer have no distribution to speak of
        assert estimate.clipping == pytest.approx(true.clipping, rel=0.03)
        clipped = (
            estimate.saturation_rate * x.size
        )  # where in their cell the last few lie is unknown
        assert clipped == pytest.approx(true.clipped, rel=0.03, abs=3)
    total = true.rounding + true.clipping
    assert estimate.rounding + estimate.clipping == pytest.approx(total, rel=0.03)
    assert estimate.signal == pytest.approx(np.mean(np.square(x, dtype=np.float64)), rel=0.001)
    assert estimate.sqnr_db == pytest.approx(10 * math.log10(estimate.signal / total), abs=0.13)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cut", [0.3, 0.6, 0.9])
def test_heavy_clipping_is_within_3_percent_of_the_true_one(kind: str, cut: float) -> None:
    x = data(kind)
    stats = stats_of(x)
    params = compute_asymmetric_qparams(
        Range(min(stats.min * cut, 0), max(stats.max * cut, 0)), UINT8
    )
    estimate, true = compute_quantization_error(stats, params), raw_error(x, params)
    assert true.clipped > 0
    assert estimate.rounding == pytest.approx(true.rounding, rel=0.03)
    if true.clipped >= 20:
        assert estimate.clipping == pytest.approx(true.clipping, rel=0.03)
        clipped = (
            estimate.saturation_rate * x.size
        )  # where in their cell the last few lie is unknown
        assert clipped == pytest.approx(true.clipped, rel=0.03, abs=3)


def test_distinct_values_give_the_true_error_exactly() -> None:
    x = data("pixels")
    params = compute_asymmetric_qparams(Range(-0.5, 1.3), INT8)
    estimate, true = compute_quantization_error(stats_of(x), params), raw_error(x, params)
    assert estimate.rounding == pytest.approx(true.rounding, rel=1e-5)
    assert estimate.clipping == pytest.approx(true.clipping, rel=1e-5)
    assert estimate.saturation_rate == true.clipped / x.size


def test_values_half_a_step_outside_are_rounded_and_not_saturated() -> None:
    params = QuantParams(np.float32(1), np.int64(0), INT8)
    stats = stats_of(np.float32([127.5, -128.5, 127.75, 0.25]))
    error = compute_quantization_error(stats, params)
    assert error.saturation_rate == 1 / 4
    assert error.clipping == pytest.approx(0.75**2 / 4)
    assert error.rounding == pytest.approx((0.5**2 + 0.5**2 + 0.25**2) / 4)


def test_zeros_have_neither_error_nor_signal() -> None:
    error = compute_quantization_error(
        stats_of(np.zeros(9, np.float32)), compute_asymmetric_qparams(Range(0, 0), INT8)
    )
    assert (error.rounding, error.clipping, error.signal) == (0, 0, 0)
    assert error.sqnr_db == math.inf


def test_nothing_seen_is_an_error() -> None:
    with pytest.raises(StatsError, match="no finite value"):
        compute_quantization_error(TensorStats(), compute_asymmetric_qparams(Range(0, 1), INT8))
