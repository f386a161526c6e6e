"""The frontier that the rule of the knee sees: the same estimates, traced over all sets of float nodes."""

from __future__ import annotations

from ptq.core.decibels import to_error_db
from ptq.evaluation.frontier import EstimatedFrontier, FrontierPoint
from ptq.optimization.mixed_precision.attribution.error_attribution import ErrorAttribution
from ptq.optimization.mixed_precision.attribution.float_reasons import explain_float_nodes
from ptq.optimization.mixed_precision.float_trade import FloatTrade
from ptq.optimization.mixed_precision.frontier.frontier_points import (
    LOWEST_ERROR,
    CurvePoint,
    trace_curve,
)

REASON_PREFIX = "error: "
_MIN_SHARE = 1e-4
"""Share of the error from which a node is listed."""


def trace_frontier(
    trade: FloatTrade,
    chosen: frozenset[str],
    prefer: str,
) -> EstimatedFrontier:
    """The curve of one attribution, and the share of each node.

    Args:
        trade: What float nodes gain and cost.
        chosen: The nodes that stay float.
        prefer: The preference that chose them.
    """
    found, times = trade.attribution, trade.times
    curve = trace_curve(trade, [chosen] if chosen else [])
    if chosen not in [point.floats for point in curve]:
        # another point is faster and has less error
        error = found.remaining_share(chosen) / float(found.mean_shares.sum())
        curve.append(CurvePoint(chosen, times.estimate(chosen), max(error, LOWEST_ERROR)))
        curve[1:] = sorted(curve[1:], key=lambda point: point.time)
    joint = float(found.joint_shares.mean())
    points = tuple(
        FrontierPoint(
            number,
            explain_float_nodes(found.sources, found.mean_shares, point.floats, REASON_PREFIX),
            speed=times.in_float / point.time,
            sqnr_db=-to_error_db(joint * point.error),
            chosen=point.floats == chosen,
        )
        for number, point in enumerate(curve)
    )
    return EstimatedFrontier(prefer, points, _sum_shares_by_node(found), found.samples, found.runs)


def _sum_shares_by_node(found: ErrorAttribution) -> dict[str, float]:
    total, shares = float(found.mean_shares.sum()), dict[str, float]()
    for source, share in zip(found.sources, found.mean_shares, strict=True):
        if source.node:
            shares[source.node] = shares.get(source.node, 0.0) + float(share) / total
    ranked = sorted(shares.items(), key=lambda item: (-item[1], item[0]))
    return {node: round(share, 6) for node, share in ranked if share >= _MIN_SHARE}
