"""Quantization error of a tensor with one scale and zero point, split into rounding and clipping.

With u = x / S and the integer n = clamp(round(u), q_min − Z, q_max − Z), the squared error of x is
S² (u − n)². Its primitive, zero at x = 0 where the error is zero, is

    F(x) = S³ (n / 12 + (u − n)³ / 3)

because every whole LSB adds 1/12. Beyond the ends n is constant, and the same cubic gives the clipping error. A cell
with density d contributes d · (F(hi) − F(lo)). A point contributes its count times its error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptq.core.decibels import to_sqnr_db
from ptq.core.types import QuantParams
from ptq.observers.histogram_cells import HistogramCells, build_histogram_cells
from ptq.observers.stats import TensorStats

_NEAR_ZERO = 0.499
"""A share of an LSB that is rounded to 0, below one half by more than the errors of float64."""
_BLOCK = 2**16
"""Numbers that are evaluated at once, 512 KB: they stay in the processor's cache."""
_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TensorError:
    """Quantization error of one tensor, estimated from its statistics.

    A value is saturated if it lies more than half an LSB outside [S (q_min − Z), S (q_max − Z)]. Its whole squared
    error is clipping. The error of every other value is rounding.

    Attributes:
        rounding: Squared rounding error, mean over all values, in squared units of the tensor.
        clipping: Squared clipping error, mean over all values, in squared units of the tensor.
        saturation_rate: Share of saturated values, 0 to 1.
        signal: Mean square of the values.
    """

    rounding: float
    clipping: float
    saturation_rate: float
    signal: float

    @property
    def sqnr_db(self) -> float:
        """SQNR: signal over rounding plus clipping, in dB; inf without error, -inf without signal."""
        return to_sqnr_db(self.signal, self.rounding + self.clipping)


def compute_quantization_error(stats: TensorStats, params: QuantParams) -> TensorError:
    """Error of quantizing the observed values with one scale and zero point.

    Raises:
        StatsError: The tensor has no finite value.
    """
    cells = build_histogram_cells(stats)
    scale, zero_point = float(params.scale), int(params.zero_point)
    low, high = scale * (params.qtype.lo - zero_point), scale * (params.qtype.hi - zero_point)
    below = _select_cells(cells, -np.inf, low - scale / 2)
    above = _select_cells(cells, high + scale / 2, np.inf)
    inside = _select_cells(cells, low - scale / 2, high + scale / 2)
    total = cells.total_count
    rounding, below_error, above_error = (
        float(compute_squared_error(region, *_build_quantizer_arrays(params))[0]) / total
        for region in (inside, below, above)
    )
    return TensorError(
        rounding=rounding,
        clipping=below_error + above_error,
        saturation_rate=(below.total_count + above.total_count) / total,
        signal=_sum_squares(cells) / total,
    )


def compute_mean_error(stats: TensorStats, params: QuantParams) -> float:
    """Mean of what quantization adds to the observed values, in units of the tensor.

    The primitive of the error S (n − u) dx is S² (1/8 − (u − n)² / 2), which is zero at the ends of every LSB.

    Raises:
        StatsError: The tensor has no finite value.
    """
    cells = build_histogram_cells(stats)
    scale, zero_point = float(params.scale), int(params.zero_point)
    first, last = params.qtype.lo - zero_point, params.qtype.hi - zero_point

    def rest(x: NDArray[np.float64]) -> NDArray[np.float64]:
        u = x / scale
        excess: NDArray[np.float64] = u - np.clip(np.rint(u), first, last)
        return excess

    at, spread = cells.take(cells.is_point), cells.take(~cells.is_point)
    points = -scale * float(rest(at.lo) @ at.counts)
    density = spread.counts / (spread.hi - spread.lo)
    squares = np.square(rest(spread.lo)) - np.square(rest(spread.hi))
    return (points + scale**2 * float(squares @ density) / 2) / cells.total_count


class SquaredError:
    """The squared error of all values as a function of the quantizer.

    Values within half an LSB of 0 become 0, so their squared error is their own square: it does not depend on the
    quantizer. Only the other values are evaluated for each quantizer.
    """

    def __init__(self, cells: HistogramCells) -> None:
        points = cells.is_point
        self._points, self._mass = cells.lo[points], cells.counts[points]
        spread = cells.take(~points)
        density = spread.counts / (spread.hi - spread.lo)
        # neighbours share an edge, which halves the work
        ends = np.stack([spread.lo, spread.hi], axis=1).reshape(-1)
        is_new = np.ones(ends.size, bool)
        np.greater(ends[1:], ends[:-1], out=is_new[1:])
        weights = np.stack([-density, density], axis=1).reshape(-1)
        self._edges = ends[is_new]
        self._weight = np.bincount(np.cumsum(is_new) - 1, weights, self._edges.size)
        self._cubes = self._edges**3

    def evaluate(self, scale: _Floats, first: _Floats, last: _Floats) -> _Floats:
        """Sum of the squared errors of all values, for each of many quantizers.

        Args:
            scale: Scale of each quantizer, shape (candidates,).
            first: Lowest integer of each quantizer minus its zero point, q_min − Z, at most 0.
            last: Highest integer of each quantizer minus its zero point, q_max − Z, at least 0.
        """
        near = float(scale.min()) * _NEAR_ZERO
        small = np.abs(self._points) <= near
        points, mass = self._points[~small], self._mass[~small]
        begin, end = np.searchsorted(self._edges, [-near, near])
        edges, weight = (
            np.concatenate([array[:begin], array[end:]]) for array in (self._edges, self._weight)
        )
        constant = float(np.square(self._points[small]) @ self._mass[small])
        constant += float(self._cubes[begin:end] @ self._weight[begin:end]) / 3
        errors = np.full(len(scale), constant)
        for block in _list_blocks(len(scale), points.size):
            u, _ = _split(points, scale[block], first[block], last[block])
            errors[block] += scale[block] ** 2 * (np.square(u, out=u) @ mass)
        for block in _list_blocks(len(scale), edges.size):
            u, n = _split(edges, scale[block], first[block], last[block])
            whole = n @ weight
            np.multiply(u, u, out=n)
            of_spread = whole / 12 + np.multiply(n, u, out=n) @ weight / 3
            errors[block] += scale[block] ** 3 * of_spread
        np.maximum(errors, 0.0, out=errors)
        return errors


def _list_blocks(rows: int, columns: int) -> Iterator[slice]:
    """The rows in blocks of about `_BLOCK` numbers; none without columns."""
    step = max(1, _BLOCK // max(1, columns))
    yield from (slice(start, start + step) for start in range(0, rows if columns else 0, step))


def _split(x: _Floats, lsb: _Floats, first: _Floats, last: _Floats) -> tuple[_Floats, _Floats]:
    """The excess u − n and the integer n, where u = x / S and n = clamp(round(u)), for each quantizer.

    The numbers x ascend, so that only the outermost ones can lie beyond the integers of a quantizer.
    """
    u: _Floats = x / lsb[:, None]
    n = np.rint(u)
    low, high = np.searchsorted(x, [(first * lsb).max(), (last * lsb).min()])
    np.maximum(n[:, :low], first[:, None], out=n[:, :low])
    np.minimum(n[:, high:], last[:, None], out=n[:, high:])
    return np.subtract(u, n, out=u), n


def compute_squared_error(
    cells: HistogramCells, scale: _Floats, first: _Floats, last: _Floats
) -> _Floats:
    """The same for cells that are evaluated once; see `SquaredError.evaluate`."""
    return SquaredError(cells).evaluate(scale, first, last)


def _build_quantizer_arrays(params: QuantParams) -> tuple[NDArray[np.float64], ...]:
    zero_point = int(params.zero_point)
    row = (float(params.scale), params.qtype.lo - zero_point, params.qtype.hi - zero_point)
    return tuple(np.array([number], np.float64) for number in row)


def _select_cells(cells: HistogramCells, start: float, end: float) -> HistogramCells:
    """Values of an interval between ``start`` and ``end``.

    Points at an end belong to the interval only if both ends are finite.
    """
    lo, hi = np.maximum(cells.lo, start), np.minimum(cells.hi, end)
    points = cells.is_point
    width = np.where(points, 1.0, cells.hi - cells.lo)
    within = np.where(
        points, (cells.lo > start) & (cells.lo < end), np.maximum(hi - lo, 0.0) / width
    )
    # values at the ends still round to the first or last integer
    if np.isfinite(start) and np.isfinite(end):
        within = np.where(points & ((cells.lo == start) | (cells.lo == end)), 1.0, within)
    return HistogramCells(lo, hi, cells.counts * within).take(within > 0)


def _sum_squares(cells: HistogramCells) -> float:
    lo, hi = cells.lo, cells.hi
    return float(cells.counts @ (lo * lo + lo * hi + hi * hi)) / 3
