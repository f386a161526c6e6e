"""Drop of a metric against the float model, with its confidence interval, and accuracy budgets.

A drop is measured in points: hundredths of a metric that runs from 0 to 1. Both models run on the same samples. The
metric is

- top-1 accuracy, if samples are labelled;
- else agreement with the float model, if the output is one score for each class;
- else the energy of the error as a share of the output's energy: 0.1 points are 30 dB SQNR, 1 point is 20 dB.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ptq.core.errors import BudgetError
from ptq.core.wording import plural
from ptq.evaluation import intervals

TOP1, AGREEMENT, ERROR = "top-1 accuracy", "agreement with float", "energy of the error"
SIGNIFICANCE_LEVEL = 0.05


@dataclass(frozen=True)
class Drop:
    """Loss of one form of the model against the float model.

    Attributes:
        metric: Name of the metric.
        points: Points lost; negative for a gain.
        lo: Low end of the 95 % interval, in points.
        hi: High end of the 95 % interval, in points.
        samples: Number of samples.
        p: p-value of McNemar's test; None if nothing is tested.
        lost: Number of samples that only the float model gets right; None if samples are not right or wrong.
        gained: Number of samples that only this form gets right.
    """

    metric: str
    points: float
    lo: float
    hi: float
    samples: int
    p: float | None = None
    lost: int | None = None
    gained: int | None = None


def describe_drop(drop: Drop) -> str:
    """One drop as a change of the metric, with its confidence interval and test."""
    if drop.metric == ERROR:
        return f"error energy {drop.points:.3g} % of the output (95 % CI {drop.lo:.3g} … {drop.hi:.3g})"
    metric = drop.metric.removesuffix(" accuracy")
    # a drop is what is lost, a change what is gained: the ends of the interval swap
    interval = f"95 % CI {_signed(-drop.hi)} … {_signed(-drop.lo)}"
    change = f"{metric} {_signed(-drop.points)} points"
    if drop.p is None:
        return f"{change} ({interval})"
    verdict = "significant" if drop.p < SIGNIFICANCE_LEVEL else "no significant"
    return f"{change} ({interval}, McNemar p = {drop.p:.2g}): {verdict} change"


def _signed(points: float) -> str:
    return f"{points:+.2f}".replace("-", "−")


def top1_drop(before: Sequence[bool], after: Sequence[bool]) -> Drop:
    """Drop of top-1 accuracy, with McNemar's test and Tango's interval.

    Args:
        before: Whether the float model is right, by sample.
        after: Whether the other form is right, by sample.
    """
    old, new = np.asarray(before, bool), np.asarray(after, bool)
    lost, gained = int(np.count_nonzero(old & ~new)), int(np.count_nonzero(new & ~old))
    lo, hi = intervals.tango_interval(lost, gained, old.size)
    return Drop(
        metric=TOP1,
        points=100 * (lost - gained) / old.size,
        lo=100 * lo,
        hi=100 * hi,
        samples=old.size,
        p=intervals.mcnemar(lost, gained),
        lost=lost,
        gained=gained,
    )


def agreement_drop(agreements: Sequence[bool]) -> Drop:
    """Share of samples with another top class than the float model, with its exact interval."""
    count, lost = len(agreements), len(agreements) - sum(agreements)
    lo, hi = intervals.clopper_pearson_interval(lost, count)
    return Drop(AGREEMENT, 100 * lost / count, 100 * lo, 100 * hi, count, lost=lost, gained=0)


def error_drop(signal: Sequence[float], noise: Sequence[float]) -> Drop:
    """Energy of the error as a share of the output's energy over all samples, with a bootstrap interval.

    Args:
        signal: Sum of squares of the float output, by sample.
        noise: Sum of squares of the error, by sample.
    """
    columns = np.array([noise, signal], np.float64).T
    draws = intervals.bootstrap_sums(columns)
    shares = [_error_share(n, s) for n, s in (columns.sum(axis=0), *draws)]
    lo, hi = intervals.percentile_interval(np.array(shares[1:]))
    return Drop(ERROR, 100 * shares[0], 100 * lo, 100 * hi, len(columns))


def _error_share(noise: float, signal: float) -> float:
    if noise == 0:
        return 0.0
    return noise / signal if signal else math.inf


@dataclass(frozen=True)
class Budget:
    """A drop compared with an accuracy budget.

    Attributes:
        points: The budget: points that may be lost.
        drop: The measured drop.
        verdict: ``held`` if the whole interval is within the budget, ``exceeded`` if all of it is beyond, else
            ``undecided``.
        needed: If undecided: about the number of samples that would decide it; None if no number would.
    """

    points: float
    drop: Drop
    verdict: str
    needed: int | None = None

    def __str__(self) -> str:
        if self.verdict != "undecided":
            return self.verdict
        need = "" if self.needed is None else f" (need about {self.needed})"
        return f"not enough samples to decide{need}"

    @property
    def sentence(self) -> str:
        """The verdict with budget, loss and number of samples."""
        unit = "%" if self.drop.metric == ERROR else "points"
        loss = f"{self.drop.points:.3g} {unit} lost, 95 % interval {self.drop.lo:.3g} … {self.drop.hi:.3g}"
        text = f"budget of {self.points:g} {unit} of {self.drop.metric}: "
        if self.verdict != "undecided":
            return f"{text}{self.verdict} ({loss})"
        need = "no number of samples would decide it"
        if self.needed is not None:
            need = f"give about {self.needed} samples"
        return f"{text}{plural(self.drop.samples, 'sample')} cannot decide it ({loss}); {need}"

    def require_held(self) -> None:
        """Make sure that the budget is shown to hold.

        Raises:
            BudgetError: It is exceeded, or the samples cannot decide it.
        """
        if self.verdict != "held":
            raise BudgetError(self.sentence)


def check_budget(drop: Drop, points: float) -> Budget:
    """Compare a drop with a budget.

    The interval shrinks as 1/√n. The number of samples needed is the n at which it no longer contains the budget.
    """
    if drop.hi <= points:
        return Budget(points, drop, "held")
    if drop.lo > points:
        return Budget(points, drop, "exceeded")
    distance = drop.points - points
    half_width = drop.points - drop.lo if distance > 0 else drop.hi - drop.points
    with np.errstate(divide="ignore"):
        needed = drop.samples * float(np.square(np.divide(half_width, distance)))
    return Budget(points, drop, "undecided", math.ceil(needed) if math.isfinite(needed) else None)


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
