"""Estimates of all points, with those of the ends set to what was measured there.

The table of times knows kernels, not this machine and this model as a whole. So the estimated time of a point lies
between float and all int8 as far as its estimated passes do. Its error lies between the measured errors of both ends
as far as its estimated error does, in dB.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ptq.evaluation.frontier import FrontierPoint
from ptq.optimization.mixed_precision.frontier_points import CurvePoint

_TINY = 1e-30


def estimate_points(
    curve: Sequence[CurvePoint],
    in_float: float,
    measured: Mapping[int, tuple[float, float]],
) -> list[FrontierPoint]:
    """Estimated speed and SQNR of each point, beside what was measured.

    Args:
        curve: The points; the first one is all int8.
        in_float: Passes of the float model.
        measured: Speed relative to float and SQNR in dB by number of the point, at least that of the first one.
    """
    speed, sqnr_db = measured[0]
    first, fastest = curve[0].time, 1 / speed
    last = len(curve) - 1
    estimated, found = (
        _gain_db(curve[last]),
        measured[last][1] - sqnr_db if last in measured else 0.0,
    )
    scale = found / estimated if estimated > 0 and found > 0 else 1.0
    points = []
    for number, point in enumerate(curve):
        share = (point.time - first) / (in_float - first) if in_float > first else 0.0
        time = fastest + (1 - fastest) * share
        if in_float <= first or time <= 0:
            time = fastest * point.time / first
        gain = scale * _gain_db(point)
        known = measured.get(number, (None, None))
        points.append(FrontierPoint(number, {}, 1 / time, sqnr_db + gain, *known))
    return points


def _gain_db(point: CurvePoint) -> float:
    return 10 * math.log10(1 / max(point.error, _TINY))
