"""Which threshold loses the least information, by the Kullback-Leibler divergence?

The algorithm of NVIDIA's 2017 talk (S. Migacz, "8-bit inference with TensorRT"): |x| falls into 2048 bins.
For every number of bins i from ``levels`` to 2048, P is the first i bins with everything beyond added to the
last; Q is the same bins without it, merged to ``levels`` values and spread back over the nonempty ones. Both
are normalised, and the i with the least Σ P log(P / Q) gives the threshold T = (i + 0.5) · width.

Zeros are left out: a ReLU's half of all values would hide everything else, and they cost nothing.
The bins share the counts of the cells evenly. Bins of raw values would also hold sampling noise, which
adds about (i − levels) / 2N to their divergence; without it, it is lower, its minimum nearly where it was.

With h the bins, t the values beyond, N = Σ h + t, and for each merged group g its sum H and number n of
nonempty bins, the divergence is, by sums that depend on the ends of the groups alone,

    [Σ h log h − Σ_g H log(H / n) + (h_last + t) log(h_last + t) − h_last log h_last − t log(H_G / n_G)] / N
    + log(Σ h / N)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UsageError
from ptq.core.types import QType, Range
from ptq.observers.histogram_cells import HistogramCells, histogram_cells
from ptq.observers.observer import Observer
from ptq.observers.stats import TensorStats

BINS = 2048
_Floats = NDArray[np.float64]


def kl(levels: int = 128) -> Observer:
    """An observer that minimises the divergence between |x| and its quantized form.

    Args:
        levels: The integers that |x| is mapped to on a symmetric scale: 128 of 8 bits. An asymmetric scale
            spends on |x| what the other sign does not need: twice as many on values of one sign.

    Raises:
        UsageError: levels is not in [2, 1024].
    """
    if not 2 <= levels <= BINS // 2:
        raise UsageError(f"{levels} levels are not from 2 to {BINS // 2}; 128 is usual for 8 bits")

    def observe(stats: TensorStats, qtype: QType, *, symmetric: bool) -> Range:
        del qtype
        cells = histogram_cells(stats)
        least, most = min(cells.lo[0], 0.0), max(cells.hi[-1], 0.0)
        limit = max(-least, most)
        if limit == 0:
            return Range(0.0, 0.0)
        share = 1.0 if symmetric else 2 * limit / (most - least)
        histogram = magnitude_histogram(cells, limit)
        best = best_bin_count(histogram, round(levels * share))
        threshold = min((best + 0.5) * limit / BINS, limit)
        return Range(max(least, -threshold), min(most, threshold))

    return observe


def magnitude_histogram(cells: HistogramCells, limit: float) -> _Floats:
    """The nonzero |x| in 2048 equal bins from 0 to the limit."""
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
    total[total < 1e-6] = 0.0  # an edge of a cell that rounding put into the next bin
    return total


def best_bin_count(histogram: _Floats, levels: int) -> int:
    """The number of first bins, ``levels`` at least, with the least divergence."""
    return int(np.argmin(kl_divergences(histogram, levels))) + levels


def kl_divergences(h: _Floats, levels: int) -> _Floats:
    """The divergence for each number of first bins from ``levels`` to all; inf where the last is empty."""
    ends = np.arange(levels, h.size + 1)
    groups = np.arange(levels + 1) * ends[:, None] // levels
    mass = _cumulative(h)
    total, inside = mass[-1], mass[ends]
    merged = np.diff(mass[groups], axis=1)
    filled = np.diff(_cumulative((h > 0).astype(np.float64))[groups], axis=1)
    level = np.log(np.where(merged > 0, merged, 1.0) / np.maximum(filled, 1.0))
    last, tail = h[ends - 1], total - inside
    sums = (
        _cumulative(_x_log_x(h))[ends]
        - np.sum(merged * level, axis=1)
        + _x_log_x(last + tail)
        - _x_log_x(last)
        - tail * level[:, -1]
    )
    divergence: _Floats = sums / total + np.log(np.maximum(inside, 1e-300) / total)
    return np.where((last > 0) | (tail == 0), divergence, np.inf)


def _cumulative(x: _Floats) -> _Floats:
    return np.concatenate([[0.0], np.cumsum(x)])


def _x_log_x(x: _Floats) -> _Floats:
    return x * np.log(np.where(x > 0, x, 1.0))
