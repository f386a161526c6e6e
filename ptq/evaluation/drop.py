"""Drop of a metric against the float model, with its confidence interval.

A drop is measured in points: hundredths of a metric that runs from 0 to 1. Both models run on the same samples. The
metric is

- top-1 accuracy, if samples are labelled;
- else agreement with the float model, if the output is one score for each class;
- else the energy of the error as a share of the output's energy: 0.1 points are 30 dB SQNR, 1 point is 20 dB.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ptq.core.errors import BudgetError
from ptq.core.wording import format_change
from ptq.evaluation import intervals

TOP1, AGREEMENT, ERROR = "top-1 accuracy", "agreement with float", "energy of the error"
SIGNIFICANCE_LEVEL = 0.05
SOME_POINTS = 2.0
"""Changed decisions that deserve a look."""
TOO_FEW = "too few samples define the metric"
"""Why there is no interval: there is one sample, or most resamples leave a metric of the user undefined."""
REPEATED = "the metric behaves otherwise on repeated samples"
"""Why a metric of the user has none: resamples repeat samples."""
Verdict = Literal["held", "exceeded", "undecided"]
_MIN_POINTS = 1e-6
"""A change of fewer points is written as none: sums of shares round that much."""


@dataclass(frozen=True)
class Drop:
    """Loss of one form of the model against the float model.

    Attributes:
        metric: Name of the metric.
        points: Points lost; negative for a gain.
        lo: Low end of the 95 % interval, in points; −∞ if there is none.
        hi: High end of the 95 % interval, in points; ∞ if there is none.
        samples: Number of samples.
        p: p-value of McNemar's test, whose interval is Tango's; None if nothing is tested.
        lost: Number of samples that only the float model gets right; None if samples are not right or wrong.
        gained: Number of samples that only this form gets right.
        doubt: Why the drop decides no budget; empty if it does.
    """

    metric: str
    points: float
    lo: float
    hi: float
    samples: int
    p: float | None = None
    lost: int | None = None
    gained: int | None = None
    doubt: str = ""

    @property
    def has_interval(self) -> bool:
        """Whether there is an interval; one sample, or mostly undefined resamples, have none."""
        return (self.lo, self.hi) != intervals.NO_INTERVAL

    def interval_at(self, samples: int) -> intervals.Interval:
        """The 95 % interval, in points, of another number of samples with the same shares of changed answers.

        Where answers are not counted, an interval shrinks as 1/√n, and that of no change as 1/n. That of an infinite
        error stays as it is.

        Args:
            samples: The number of samples.
        """
        growth = samples / self.samples
        if self.lost is not None and self.gained is not None:
            lost, gained = growth * self.lost, growth * self.gained
            lo, hi = (
                intervals.compute_tango_interval(lost, gained, samples)
                if self.p is not None
                else intervals.compute_clopper_pearson_interval(lost, samples)
            )
            return 100 * lo, 100 * hi
        if math.isinf(self.points):
            return self.lo, self.hi
        shrink = growth if self.points == 0 else math.sqrt(growth)
        return (
            self.points - (self.points - self.lo) / shrink,
            self.points + (self.hi - self.points) / shrink,
        )


@dataclass(frozen=True)
class Budget:
    """A drop compared with an accuracy budget.

    Attributes:
        points: The budget: points that may be lost.
        drop: The measured drop.
        verdict: ``held`` if drop and interval are within the budget. ``exceeded`` if both are beyond, or if the
            interval contains the budget and the search found no float nodes that keep it. Else ``undecided``, and
            always if the drop says nothing.
        needed: If undecided: about the number of evaluation samples that would decide it, if answers change in the
            same proportion; None if no number would, or if that is unknown.
        sentence: The verdict with budget, change, interval and number of samples, for every output.
    """

    points: float
    drop: Drop
    verdict: Verdict
    needed: int | None = None
    sentence: str = ""

    def __str__(self) -> str:
        return self.sentence

    def leave_undecided(self, why: str) -> Budget:
        """The same budget, which nothing decides.

        Args:
            why: The reason.
        """
        begin = self.sentence.partition(":")[0]
        return replace(
            self, verdict="undecided", needed=None, sentence=f"{begin}: undecided ({why})"
        )

    def require_held(self) -> None:
        """Make sure that the budget is shown to hold.

        Raises:
            BudgetError: It is exceeded, or the samples cannot decide it.
        """
        if self.verdict != "held":
            raise BudgetError(self.sentence)


@dataclass(frozen=True)
class TaskChoice:
    """The task that accuracy is measured by.

    Attributes:
        name: Its name; ``none`` if none was recognized, or was asked for: then only the error's energy is measured.
        output: The output that decides; empty without a task.
        why: What it was recognized by.
        asked: Whether it was asked for.
        assumed: Whether shapes alone show it and one class is nearly always the best one, so that the outputs may be
            numbers that decide nothing.
        common: Share of the energy of scores, each sample's less its mean, that all samples have in common; None
            if their values, labels or the user say that they are scores.
    """

    name: str
    output: str
    why: str
    asked: bool = False
    assumed: bool = False
    common: float | None = None


def describe_drop(drop: Drop) -> str:
    """One drop as a change of the metric, with its confidence interval and test."""
    change, interval = describe_metric_change(drop)
    if drop.p is None:
        return f"{change} ({interval})"
    verdict = "significant" if drop.p < SIGNIFICANCE_LEVEL else "no significant"
    return f"{change} ({interval}, McNemar p = {drop.p:.2g}): {verdict} change"


def describe_metric_change(drop: Drop) -> tuple[str, str]:
    """A drop as a change of the metric, and the confidence interval of the change."""
    if not drop.has_interval:
        interval = f"no 95 % CI: {drop.doubt or TOO_FEW}"
    elif drop.metric == ERROR:
        interval = f"95 % CI {drop.lo:.3g} … {drop.hi:.3g}"
    else:  # a drop is what is lost, a change what is gained: the ends of the interval swap
        interval = f"95 % CI {format_change(-drop.hi)} … {format_change(-drop.lo)}"
    if drop.metric == ERROR:
        return f"error energy {drop.points:.3g} % of the output", interval
    size, digits = abs(drop.points), 2
    if _MIN_POINTS < size < 0.005:  # two digits would say that nothing changed
        digits = -math.floor(math.log10(size))
    change = format_change(-drop.points, digits)
    return f"{drop.metric.removesuffix(' accuracy')} {change} points", interval


def measure_top1_drop(before: Sequence[bool], after: Sequence[bool]) -> Drop:
    """Drop of top-1 accuracy, with McNemar's test and Tango's interval.

    Args:
        before: Whether the float model is right, by sample.
        after: Whether the other form is right, by sample.
    """
    old, new = np.asarray(before, bool), np.asarray(after, bool)
    lost, gained = int(np.count_nonzero(old & ~new)), int(np.count_nonzero(new & ~old))
    lo, hi = intervals.compute_tango_interval(lost, gained, old.size)
    return Drop(
        metric=TOP1,
        points=100 * (lost - gained) / old.size,
        lo=100 * lo,
        hi=100 * hi,
        samples=old.size,
        p=intervals.compute_mcnemar_p_value(lost, gained),
        lost=lost,
        gained=gained,
    )


def measure_agreement_drop(agreements: Sequence[bool]) -> Drop:
    """Share of samples with another top class than the float model, with its exact interval."""
    count, lost = len(agreements), len(agreements) - sum(agreements)
    lo, hi = intervals.compute_clopper_pearson_interval(lost, count)
    return Drop(AGREEMENT, 100 * lost / count, 100 * lo, 100 * hi, count, lost=lost, gained=0)


def measure_error_drop(signal: Sequence[float], noise: Sequence[float]) -> Drop:
    """Energy of the error as a share of the output's energy over all samples, with a bootstrap interval.

    Args:
        signal: Sum of squares of the float output, by sample.
        noise: Sum of squares of the error, by sample.
    """
    columns = np.array([noise, signal], np.float64).T
    draws = intervals.bootstrap_sums(columns)
    shares = [_compute_error_share(n, s) for n, s in (columns.sum(axis=0), *draws)]
    one_sample = len(columns) == 1  # its draws are equal
    lo, hi = (
        intervals.NO_INTERVAL
        if one_sample
        else intervals.compute_percentile_interval(np.array(shares[1:]))
    )
    return Drop(ERROR, 100 * shares[0], 100 * lo, 100 * hi, len(columns))


def _compute_error_share(noise: float, signal: float) -> float:
    if noise == 0:
        return 0.0
    return noise / signal if signal else math.inf
