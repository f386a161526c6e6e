"""MSE range method: the range with the least mean squared quantization error.

Both ends vary independently. A first pass minimizes the model

    C(lo) + C(hi) + N (hi − lo)² / (12 · n²)

where C is the squared clipping error of all values beyond an end, from cumulative sums. N is the number of nonzero
values, and n is the number of LSBs in the range. The model is convex in (lo, hi). A second search around its minimum
uses the exact error, with an integer zero point (see `compute_quantization_error`). The whole range is always a
candidate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import QType, Range
from ptq.observers.histogram_cells import HistogramCells, build_histogram_cells
from ptq.observers.qparams import compute_asymmetric_scales, compute_symmetric_scales
from ptq.observers.quantization_error import SquaredError
from ptq.observers.stats import TensorStats

_SEARCHES_2D = ((0.1, 9), (0.025, 5), (0.006, 5))
"""Successive searches if both ends vary: half-width relative to an end, and candidates for each end."""
_SEARCHES_1D = ((0.1, 33), (0.006, 9))
"""The same if only one end varies. Finer searches lower the error of a tensor by 0.004 dB and take twice the time."""
_OCTAVES = np.concatenate([np.arange(-29.75, -5, 1 / 4), np.arange(-5, 1 / 16, 1 / 16)])
_SHARES = np.concatenate([[0.0], 2.0**_OCTAVES])
"""Candidates as shares of an end: 16 an octave in the five octaves next to the end, then 4 an octave."""
_Floats = NDArray[np.float64]


def mse(stats: TensorStats, qtype: QType, *, symmetric: bool) -> Range:
    """The range with the least expected squared error; for a symmetric scale of the form [-T, T].

    Returns:
        A range inside the observed extremes that contains 0. For a symmetric scale its larger end is T.

    Raises:
        StatsError: The tensor has no finite value.
    """
    cells = build_histogram_cells(stats)
    least, most = min(float(cells.lo[0]), 0.0), max(float(cells.hi[-1]), 0.0)
    if least == most:
        return Range(0.0, 0.0)
    nonzero = float(cells.counts[(cells.lo != 0) | (cells.hi != 0)].sum())
    if symmetric:
        limit = max(-least, most)
        zero = np.zeros(1)
        tops = _compute_candidate_ends(cells.to_absolute(), limit)
        _, threshold = _find_coarse_minimum((zero, zero), tops, 4 * nonzero / qtype.lsb_count**2)
        best = _refine(cells, qtype, (0.0, limit), (0.0, threshold), mirrored=True)[1]
        return Range(max(least, -best), min(most, best))
    bottoms = _compute_candidate_ends(cells.negate(), -least)
    tops = _compute_candidate_ends(cells, most)
    start = _find_coarse_minimum((-bottoms[0], bottoms[1]), tops, nonzero / qtype.lsb_count**2)
    return Range(*_refine(cells, qtype, (least, most), start, mirrored=False))


def _compute_candidate_ends(cells: HistogramCells, end: float) -> tuple[_Floats, _Floats]:
    """Candidates from 0 to the end, and the squared clipping error of each."""
    if end <= 0:
        return np.zeros(1), np.zeros(1)
    chosen = end * _SHARES
    above = np.searchsorted(cells.lo, 0.0)
    lo, hi, counts = (array[above:][::-1] for array in (cells.lo, cells.hi, cells.counts))
    moments = [counts, counts * (lo + hi) / 2, counts * (lo * lo + lo * hi + hi * hi) / 3]
    beyond = np.searchsorted(-lo, -chosen, side="right")
    zeroth, first, second = (np.concatenate([[0.0], np.cumsum(m)])[beyond] for m in moments)
    return chosen, np.maximum(second - 2 * chosen * first + chosen**2 * zeroth, 0.0)


def _find_coarse_minimum(
    bottoms: tuple[_Floats, _Floats], tops: tuple[_Floats, _Floats], mass: float
) -> tuple[float, float]:
    """Pair of ends with the minimum of the model."""
    (lo, lo_cost), (hi, hi_cost) = bottoms, tops
    model = lo_cost[:, None] + hi_cost + (hi - lo[:, None]) ** 2 * (mass / 12)
    i, j = np.unravel_index(np.argmin(model), model.shape)
    return float(lo[i]), float(hi[j])


def _refine(
    cells: HistogramCells,
    qtype: QType,
    limits: tuple[float, float],
    start: tuple[float, float],
    *,
    mirrored: bool,
) -> tuple[float, float]:
    """Ends near ``start`` with the least exact error, or the limits if their error is not larger."""
    error, best, centre = SquaredError(cells), limits, start
    [least] = _compute_errors(error, qtype, [limits], mirrored=mirrored)
    for reach, count in _SEARCHES_2D if limits[0] < 0 < limits[1] else _SEARCHES_1D:
        factors = np.linspace(1 - reach, 1 + reach, count).tolist()
        lows = sorted({max(centre[0] * factor, limits[0]) for factor in factors})
        highs = sorted({min(centre[1] * factor, limits[1]) for factor in factors})
        pairs = [(low, high) for high in highs for low in lows]
        errors = _compute_errors(error, qtype, pairs, mirrored=mirrored)
        index = int(errors.argmin())
        centre = pairs[index]
        if errors[index] < least:
            least, best = errors[index], centre
    return best


def _compute_errors(
    error: SquaredError, qtype: QType, ends: Sequence[tuple[float, float]], *, mirrored: bool
) -> _Floats:
    """Squared error for each pair of ends."""
    find_scales = compute_symmetric_scales if mirrored else compute_asymmetric_scales
    lo, hi = np.array(ends).T
    scale, zero_point = find_scales(lo, hi, qtype)
    first, last = (np.asarray(end - zero_point, np.float64) for end in (qtype.lo, qtype.hi))
    return error.evaluate(scale.astype(np.float64), first, last)
