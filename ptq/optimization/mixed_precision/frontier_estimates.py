"""Estimates of all points, with those of the ends set to what was measured there.

The table of times knows kernels, not this machine and this model as a whole. So the estimated time of a point lies
between float and all int8 as far as its estimated passes do. Its error is the measured error of all int8 times the
share that is estimated to remain.
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
    points = []
    for number, point in enumerate(curve):
        share = (point.time - first) / (in_float - first) if in_float > first else 0.0
        time = fastest + (1 - fastest) * share
        if in_float <= first or time <= 0:
            time = fastest * point.time / first
        gain = 10 * math.log10(1 / max(point.error, _TINY))
        known = measured.get(number, (None, None))
        points.append(FrontierPoint(number, {}, 1 / time, sqnr_db + gain, *known))
    return points
