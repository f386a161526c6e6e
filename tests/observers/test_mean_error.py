"""Oracle: the mean of the rounding error of the raw data, in float64."""

from __future__ import annotations

import numpy as np
import pytest

from ptq.core.types import INT8, UINT8, QType, Range
from ptq.observers import TensorStats
from ptq.observers.qparams import compute_asymmetric_qparams
from ptq.observers.quantization_error import compute_mean_error


def raw_and_estimate(x: np.ndarray, span: Range, qtype: QType) -> tuple[float, float, float]:
    stats = TensorStats()
    stats.update(x)
    params = compute_asymmetric_qparams(span, qtype)
    real = x.astype(np.float64)
    added = params.dequantize(params.quantize(x)).astype(np.float64) - real
    return float(added.mean()), compute_mean_error(stats, params), float(params.scale)


@pytest.mark.parametrize("qtype", [INT8, UINT8], ids=["int8", "uint8"])
def test_clipping_a_tail_lowers_the_mean_by_what_it_cuts(qtype: QType) -> None:
    x = np.abs(np.random.default_rng(0).normal(size=200_000)).astype(np.float32)
    raw, estimated, _ = raw_and_estimate(x, Range(0.0, 1.5), qtype)
    assert raw < -0.02
    assert estimated == pytest.approx(raw, rel=0.01)


def test_pixels_off_the_grid_shift_the_mean_as_the_raw_data_say() -> None:
    pixels = np.random.default_rng(1).choice(256, 50_000, p=np.r_[0.6, np.full(255, 0.4 / 255)])
    x = ((pixels / 255 - 0.2860) / 0.3530).astype(np.float32)
    raw, estimated, step = raw_and_estimate(x, Range(-0.9, 2.1), UINT8)
    assert abs(raw) > 0.01 * step
    assert estimated == pytest.approx(raw, abs=1e-3 * step)


def test_a_gaussian_inside_its_range_keeps_its_mean() -> None:
    x = np.random.default_rng(2).normal(size=100_000).astype(np.float32)
    raw, estimated, step = raw_and_estimate(x, Range(-5.0, 5.0), INT8)
    assert abs(raw) < 0.01 * step
    assert abs(estimated) < 0.01 * step
