"""The points of a frontier: sets of float nodes, each with the estimated time and error of the whole model."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ptq.core.decibels import to_sqnr_db
from ptq.data import Sample
from ptq.optimization.mixed_precision.attribution.error_attribution import (
    ErrorAttribution,
    list_remaining,
    measure_joint_errors,
)
from ptq.optimization.mixed_precision.attribution.error_injection import ErrorInjector
from ptq.optimization.mixed_precision.attribution.float_candidates import (
    RemovableSources,
    list_greedy_candidates,
)
from ptq.optimization.mixed_precision.float_trade import FloatTrade

MAX_POINTS = 18
_TRIED = 40
"""Sets whose time is estimated with the partition that the solver would choose."""
LOWEST_ERROR = 1e-4
"""The share of the error below which more float nodes show nothing."""
_ENOUGH_POINTS = 12
"""A curve with fewer points is searched for further ones: some fall away when errors are injected together."""
_MAX_ESTIMATES = 400
"""Sets that this search estimates; networks with few points are small."""
_SIGNIFICANT_DB = 30.0
"""The gain of error that a plot shows as wide as the whole time."""


@dataclass(frozen=True)
class CurvePoint:
    """Nodes that are left float.

    Attributes:
        floats: The nodes.
        time: Estimated passes of the model.
        error: Estimated error energy as a share of the all-int8 model's.
    """

    floats: frozenset[str]
    time: float
    error: float


def trace_curve(trade: FloatTrade, further: Collection[frozenset[str]] = ()) -> list[CurvePoint]:
    """The Pareto curve from all int8 to below the time of float, fastest first.

    Args:
        trade: What float nodes gain and cost.
        further: Sets that are points of the curve in any case.
    """
    points, times = list_points(trade), trade.times
    fixed = [
        CurvePoint(nodes, times.estimate(nodes), _compute_remaining_error(trade.attribution, nodes))
        for nodes in further
    ]
    # as slow as float: no node on integers is left, or those that are left gain nothing
    faster = [point for point in points if point.time < times.in_float]
    return thin_out(keep_pareto([points[0], *faster, *fixed]), fixed)


def list_points(trade: FloatTrade) -> list[CurvePoint]:
    """All int8, then growing sets of float nodes, spread over time and error; some may be slower than float."""
    prefixes, times = list(_grow(trade)), trade.times
    steps = [
        abs(after.time - before.time) / times.in_float
        + to_sqnr_db(before.error, after.error) / _SIGNIFICANT_DB
        for before, after in pairwise(prefixes)
    ]
    reached = np.concatenate([[0.0], np.cumsum(steps)])
    levels = np.linspace(0, reached[-1], _TRIED)
    tried = sorted({int(np.abs(reached - level).argmin()) for level in levels})
    return [
        CurvePoint(p.floats, times.estimate(p.floats), p.error)
        for p in (prefixes[index] for index in tried)
    ]


def add_neighbours(trade: FloatTrade, curve: Sequence[CurvePoint]) -> list[CurvePoint]:
    """The curve, and further sets near it where it has few points: with one candidate more or less, and so on.

    Networks with few sources have few points in one greedy order. Sets that others excel in the sum of their errors
    are kept too, the nearest first: errors that are injected together may cancel.

    Args:
        trade: What float nodes gain and cost.
        curve: All int8 first, then the points.
    """
    if len(curve) >= _ENOUGH_POINTS:
        return list(curve)
    found, times = trade.attribution, trade.times
    candidates = RemovableSources(found.sources, found.mean_shares).candidates
    known, expanded = {point.floats: point for point in curve}, set[frozenset[str]]()
    left, best = _MAX_ESTIMATES, list(curve)
    while len(best) < MAX_POINTS and left:
        fresh = [point.floats for point in best if point.floats not in expanded]
        if not fresh:
            break
        expanded.update(fresh)
        changed = (new for old in fresh for one in candidates for new in (old | one, old - one))
        for nodes in [new for new in dict.fromkeys(changed) if new not in known][:left]:
            left -= 1
            error = _compute_remaining_error(found, nodes)
            if error > LOWEST_ERROR and (time := times.estimate(nodes)) < times.in_float:
                known[nodes] = CurvePoint(nodes, time, error)
        best = keep_pareto(list(known.values()))
    return list(curve) if len(known) == len(curve) else _peel_fronts(list(known.values()))


def _peel_fronts(points: Sequence[CurvePoint]) -> list[CurvePoint]:
    """The Pareto points, then those of the rest, and so on, up to `_TRIED`; all int8 is first."""
    first, *rest = points
    chosen = [first]
    while rest and len(chosen) < _TRIED:
        front = keep_pareto([first, *rest])[1:]
        if not front:
            break
        chosen += front[: _TRIED - len(chosen)]
        rest = [point for point in rest if point not in front]
    return chosen


def keep_pareto(points: Sequence[CurvePoint]) -> list[CurvePoint]:
    """All int8, and the points that no other one excels in time and error; fastest first."""
    first = min(points, key=lambda point: len(point.floats))
    kept, lowest = [first], math.inf
    for point in sorted(points, key=lambda p: (p.time, p.error, sorted(p.floats))):
        if point.error < lowest and point.error < first.error:
            kept.append(point)
            lowest = point.error
    return kept


def _grow(trade: FloatTrade) -> Iterator[CurvePoint]:
    """All int8, then one more set of float nodes after another, by the cheap estimate of time."""
    found = trade.attribution
    total = max(float(found.mean_shares.sum()), math.ulp(0.0))
    floats, time, error = frozenset[str](), trade.times.all_int8, 1.0
    yield CurvePoint(floats, time, error)
    for candidate in list_greedy_candidates(
        found.sources, found.mean_shares, trade.cost, lambda _: True
    ):
        time += trade.cost(candidate.nodes - floats, floats)
        floats, error = floats | candidate.nodes, error - candidate.error_share / total
        if error < LOWEST_ERROR:
            return
        yield CurvePoint(floats, time, error)


def _compute_remaining_error(found: ErrorAttribution, floats: frozenset[str]) -> float:
    total = max(float(found.mean_shares.sum()), math.ulp(0.0))
    return max(found.remaining_share(floats) / total, LOWEST_ERROR)


def thin_out(points: list[CurvePoint], fixed: Collection[CurvePoint]) -> list[CurvePoint]:
    """At most `MAX_POINTS`: the ends, the fixed ones, and others evenly between."""
    if len(points) <= MAX_POINTS:
        return points
    wanted = {round(k) for k in np.linspace(0, len(points) - 1, MAX_POINTS - len(fixed))}
    return [p for k, p in enumerate(points) if k in wanted or p in fixed]


def measure_curve(
    injector: ErrorInjector, curve: Sequence[CurvePoint], samples: Sequence[Sample]
) -> list[CurvePoint]:
    """The points with the error of all sources that they leave; those that then gain nothing are left out."""
    left = [list_remaining(injector.probe.sources, point.floats) for point in curve]
    errors = measure_joint_errors(injector, left, samples).mean(axis=0)
    whole = max(float(errors[0]), math.ulp(0.0))
    joint = [replace(p, error=float(e) / whole) for p, e in zip(curve, errors, strict=True)]
    return keep_pareto(joint)
