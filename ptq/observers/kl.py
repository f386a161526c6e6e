"""KL range method: the threshold with the least Kullback-Leibler divergence (TensorRT entropy calibration).

The algorithm is that of NVIDIA's 2017 talk (S. Migacz, "8-bit inference with TensorRT"). |x| falls into 2048 bins.
For every number of bins i from ``levels`` to 2048:

    P   is the first i bins, with all values beyond them added to the last bin
    Q   is the first i bins alone, merged to ``levels`` values and spread back over the nonempty bins

P and Q are normalized. The i with the least Σ P log(P / Q) gives the threshold T = (i + 0.5) · width.

Zeros are left out: they have no quantization error, and after a ReLU their half of all values would dominate. A bin
receives its share of a cell's count, as if values were spread evenly over the cell. Bins of raw values would also
hold sampling noise, which adds about (i − levels) / 2N to the divergence. Without the noise, the divergence is lower
and its minimum lies at nearly the same place.

Let h be the bins, t the count of values beyond, and N = Σ h + t. For each merged group g, let H be its sum and n its
number of nonempty bins. Then the divergence needs only sums that depend on the ends of the groups:

    [Σ h log h − Σ_g H log(H / n) + (h_last + t) log(h_last + t) − h_last log h_last − t log(H_G / n_G)] / N
    + log(Σ h / N)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UsageError
from ptq.core.types import QType, Range
from ptq.observers.histogram_cells import HistogramCells, build_histogram_cells
from ptq.observers.observer import Observer
from ptq.observers.stats import TensorStats

BINS = 2048
_Floats = NDArray[np.float64]


def kl(levels: int = 128) -> Observer:
    """An observer that minimizes the divergence between |x| and its quantized form.

    Args:
        levels: Number of integers to which |x| is mapped on a symmetric scale: 128 for 8 bits. On an asymmetric
            scale |x| gets more integers: twice as many if all values have one sign.

    Raises:
        UsageError: levels is not in [2, 1024].
    """
    if not 2 <= levels <= BINS // 2:
        raise UsageError(f"levels {levels} is not between 2 and {BINS // 2}; use 128 for 8 bits")

    def observe(stats: TensorStats, qtype: QType, *, symmetric: bool) -> Range:
        del qtype
        cells = build_histogram_cells(stats)
        least, most = min(cells.lo[0], 0.0), max(cells.hi[-1], 0.0)
        limit = max(-least, most)
        if limit == 0:
            return Range(0.0, 0.0)
        share = 1.0 if symmetric else 2 * limit / (most - least)
        histogram = build_magnitude_histogram(cells, limit)
        best = find_best_bin_count(histogram, round(levels * share))
        threshold = min((best + 0.5) * limit / BINS, limit)
        return Range(max(least, -threshold), min(most, threshold))

    return observe


def build_magnitude_histogram(cells: HistogramCells, limit: float) -> _Floats:
    """Counts of the nonzero |x| in 2048 equal bins from 0 to the limit."""
    cells = cells.to_absolute()
    cells = cells.take(cells.hi > 0)
    points = cells.is_point
    width = limit / BINS
    at = np.minimum(cells.lo[points] / width, BINS - 1).astype(np.int64)
    total = np.bincount(at, cells.counts[points], BINS).astype(np.float64)
    spread = cells.take(~points)
    if spread.counts.size:
        below = np.concatenate([[0.0], np.cumsum(spread.counts)])
        nodes = np.stack([spread.lo, spread.hi], axis=1).reshape(-1)
        reached = np.stack([below[:-1], below[1:]], axis=1).reshape(-1)
        total += np.diff(np.interp(np.arange(BINS + 1) * width, nodes, reached))
    total[total < 1e-6] = 0.0  # rounding moved an edge of a cell into the next bin
    return total


def find_best_bin_count(histogram: _Floats, levels: int) -> int:
    """Number of first bins, at least ``levels``, with the least divergence."""
    return int(np.argmin(compute_kl_divergences(histogram, levels))) + levels


def compute_kl_divergences(h: _Floats, levels: int) -> _Floats:
    """Divergence for each number of first bins, from ``levels`` to all; inf if the last of these bins is empty."""
    ends = np.arange(levels, h.size + 1)
    groups = np.arange(levels + 1) * ends[:, None] // levels
    mass = _sum_cumulatively(h)
    total, inside = mass[-1], mass[ends]
    merged = np.diff(mass[groups], axis=1)
    filled = np.diff(_sum_cumulatively((h > 0).astype(np.float64))[groups], axis=1)
    level = np.log(np.where(merged > 0, merged, 1.0) / np.maximum(filled, 1.0))
    last, tail = h[ends - 1], total - inside
    sums = (
        _sum_cumulatively(_x_log_x(h))[ends]
        - np.sum(merged * level, axis=1)
        + _x_log_x(last + tail)
        - _x_log_x(last)
        - tail * level[:, -1]
    )
    divergence: _Floats = sums / total + np.log(np.maximum(inside, 1e-300) / total)
    return np.where((last > 0) | (tail == 0), divergence, np.inf)


def _sum_cumulatively(x: _Floats) -> _Floats:
    return np.concatenate([[0.0], np.cumsum(x)])


def _x_log_x(x: _Floats) -> _Floats:
    return x * np.log(np.where(x > 0, x, 1.0))
