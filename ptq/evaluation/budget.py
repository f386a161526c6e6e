"""Accuracy budgets: a measured drop compared with the largest loss that the user accepts.

There is one verdict, from the whole 95 % interval of the drop, with one sentence for every output.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ptq.core.wording import plural
from ptq.evaluation.drop import ERROR, Budget, Drop, Verdict, describe_metric_change

_DOUBLINGS = 30
"""More than 10⁹ times the samples are as good as no number of samples."""


@dataclass(frozen=True)
class BudgetSearch:
    """Result of a search for the fewest float nodes that keep a budget.

    Attributes:
        points: The budget, in points.
        reached: Whether the drop on the search samples is within the budget.
        drop: Drop on the search samples with the float nodes found.
        without: Drop on the search samples without float nodes for the budget.
        samples: Number of search samples.
        apart: Whether accuracy is measured on other samples than the search samples.
        floats: Nodes kept in float for the budget, each with its reason.
        measurements: Number of quantized models that ran on all search samples.
        estimates: Number of runs of the float model on some samples to estimate costs; 0 if none was needed.
        sources: Number of quantizers: a direct measurement of each alone would need that many runs.
        wide: The nodes ``floats`` are no float nodes: their activations have 16 bits.
    """

    points: float
    reached: bool
    drop: Drop
    without: Drop
    samples: int
    apart: bool
    floats: Mapping[str, str]
    measurements: int
    estimates: int = 0
    sources: int = 0
    wide: bool = False


def check_budget(drop: Drop, points: float, search: BudgetSearch | None = None) -> Budget:
    """Compare a drop with a budget.

    Args:
        drop: The measured drop.
        points: The budget, in points.
        search: The search for float nodes that keep the budget; None if there was none.
    """
    verdict: Verdict = "undecided"
    needed, remark = None, ""
    if drop.doubt:
        # without an interval, the doubt stands in place of it
        remark = f"; {drop.doubt}" if drop.has_interval else ""
    elif max(drop.points, drop.hi) <= points:
        verdict = "held"
    elif min(drop.points, drop.lo) > points:
        verdict = "exceeded"
    elif drop.has_interval and search is not None and not search.reached:
        verdict = "exceeded"
        remark = "; the search found no float nodes that keep it"
    else:
        needed = _estimate_samples(drop, points)
        count = "no number of" if needed is None else f"about {needed:,}"
        remark = f"; {count} evaluation samples would decide it"
        if not drop.has_interval:
            remark = "; more evaluation samples may give an interval"
        elif math.isinf(drop.points):
            remark = "; the error of a sample is infinite"
    unit = "%" if drop.metric == ERROR else "point" if points == 1 else "points"
    change, interval = describe_metric_change(drop)
    measured = f"{change} on {plural(drop.samples, 'evaluation sample')}, {interval}"
    sentence = f"budget of {points:g} {unit} of {drop.metric}: {verdict} ({measured}){remark}"
    return Budget(points, drop, verdict, needed, sentence)


def _estimate_samples(drop: Drop, points: float) -> int | None:
    """Fewest samples that decide the budget if answers change in proportion, rounded up to one significant digit.

    None if no number does. While the interval is wider than the budget, the drop of so few samples says little. The
    number is then at most that at which the width w, which shrinks as 1/√n, is the budget d: n · (w / d)².
    """
    width = drop.points - drop.lo if drop.points > points else drop.hi - drop.points
    most = math.inf
    if math.isfinite(width) and width > points > 0:
        most = drop.samples * (width / points) ** 2
    number = max(min(_find_fewest_samples(drop, points), most), drop.samples + 1)
    if not math.isfinite(number):
        return None
    unit: int = 10 ** math.floor(math.log10(number))
    return math.ceil(number / unit) * unit


def _find_fewest_samples(drop: Drop, points: float) -> float:
    """Fewest samples whose interval decides the budget, by bisection; ∞ if it contains the budget at any number."""

    def decides(samples: int) -> bool:
        lo, hi = drop.interval_at(samples)
        return max(drop.points, hi) <= points or min(drop.points, lo) > points

    few, many = drop.samples, drop.samples << _DOUBLINGS
    if drop.points == points or not decides(many):
        return math.inf
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if decides(middle) else (middle, many)
    return many
