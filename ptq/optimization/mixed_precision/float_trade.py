"""The trade of float nodes: the error that goes with them, against the time that they cost."""

from __future__ import annotations

from dataclasses import dataclass

from ptq.optimization.mixed_precision.attribution.error_attribution import ErrorAttribution
from ptq.optimization.mixed_precision.attribution.float_candidates import CostFunction
from ptq.optimization.mixed_precision.model_times import FloatSetTimes


@dataclass(frozen=True, eq=False)
class FloatTrade:
    """What float nodes gain and cost.

    Attributes:
        attribution: The error of each source.
        cost: The passes that more float nodes cost; a cheap estimate.
        times: Estimates the time of the whole model.
    """

    attribution: ErrorAttribution
    cost: CostFunction
    times: FloatSetTimes
