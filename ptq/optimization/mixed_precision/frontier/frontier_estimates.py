"""Estimates of all points, drawn through those that are measured for this purpose: both ends and five between.

The table of times knows kernels, not this machine and this model as a whole; and injected errors leave out the effect
of rounding on later rounding. So the estimated time and error of a point lie between the measured ones of its
neighbours among these seven, as far as its estimated passes and its injected error do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ptq.core.decibels import to_sqnr_db
from ptq.evaluation.frontier import FrontierPoint
from ptq.optimization.mixed_precision.frontier.frontier_points import CurvePoint

_TINY = 1e-30
_PARTS = 6
"""Parts of the gain between measured points. With two, errors of a recurrent network were 4 dB off between them."""


def list_anchors(curve: Sequence[CurvePoint]) -> list[int]:
    """The numbers of the points to measure: the ends, and those nearest to each sixth of the gain in dB."""
    gains = [_to_gain_db(point) for point in curve]
    levels = [gains[-1] * part / _PARTS for part in range(_PARTS + 1)]
    nearest = (min(range(len(gains)), key=lambda k: abs(gains[k] - level)) for level in levels)
    return sorted({0, *nearest, len(gains) - 1})


def estimate_points(
    curve: Sequence[CurvePoint], measured: Mapping[int, tuple[float, float]]
) -> list[FrontierPoint]:
    """Estimated speed and SQNR of each point, beside what was measured.

    Args:
        curve: The points; the first one is all int8.
        measured: Speed relative to float and SQNR in dB by number of the point, at least those of `list_anchors`.
    """
    anchors = list_anchors(curve)
    by_time = sorted(anchors, key=lambda k: curve[k].time)
    times = [curve[k].time for k in by_time]
    taken = [1 / measured[k][0] for k in by_time]
    gains = [_to_gain_db(curve[k]) for k in anchors]
    found = [measured[k][1] for k in anchors]
    return [
        FrontierPoint(
            number,
            {},
            1 / float(np.interp(point.time, times, taken)),
            float(np.interp(_to_gain_db(point), gains, found)),
            *measured.get(number, (None, None)),
        )
        for number, point in enumerate(curve)
    ]


def _to_gain_db(point: CurvePoint) -> float:
    return to_sqnr_db(1, max(point.error, _TINY))
