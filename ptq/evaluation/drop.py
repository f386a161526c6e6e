"""What did quantization cost on one metric, how sure is that, and is a budget held?

A drop is counted in points, hundredths of a metric that runs from 0 to 1, against the float model on the same
samples: of top-1 accuracy where samples are labelled, else of agreement with the float model where the output is
one score a class, else the energy of the error as a share of the output's (0.1 points are 30 dB, 1 is 20 dB).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ptq.evaluation import intervals

TOP1, AGREEMENT, ERROR = "top-1 accuracy", "agreement with float", "energy of the error"


@dataclass(frozen=True)
class Drop:
    """What one form of the model loses against float.

    Attributes:
        metric: What is counted.
        points: Points lost; negative where it gains.
        lo: Low end of the 95 % interval, in points.
        hi: High end.
        samples: How many it was counted on.
        p: How often chance alone would part the two as far; None where nothing is tested.
        lost: Samples that float alone gets right; None where samples are not right or wrong.
        gained: Samples that this form alone gets right.
    """

    metric: str
    points: float
    lo: float
    hi: float
    samples: int
    p: float | None = None
    lost: int | None = None
    gained: int | None = None


def top1_drop(before: Sequence[bool], after: Sequence[bool]) -> Drop:
    """The drop of the share of samples that are right, McNemar's test of it and Tango's interval."""
    was, now = np.asarray(before, bool), np.asarray(after, bool)
    lost, gained = int(np.count_nonzero(was & ~now)), int(np.count_nonzero(now & ~was))
    lo, hi = intervals.tango_interval(lost, gained, was.size)
    return Drop(
        metric=TOP1,
        points=100 * (lost - gained) / was.size,
        lo=100 * lo,
        hi=100 * hi,
        samples=was.size,
        p=intervals.mcnemar(lost, gained),
        lost=lost,
        gained=gained,
    )


def agreement_drop(agreements: Sequence[bool]) -> Drop:
    """The share of samples that come out as another class than in float, with its exact interval."""
    count, lost = len(agreements), len(agreements) - sum(agreements)
    lo, hi = intervals.clopper_pearson_interval(lost, count)
    return Drop(AGREEMENT, 100 * lost / count, 100 * lo, 100 * hi, count, lost=lost, gained=0)


def error_drop(signal: Sequence[float], noise: Sequence[float]) -> Drop:
    """The energy of the error as a share of the output's, over all samples, bootstrapped.

    Args:
        signal: Sum of squares of the float output, by sample.
        noise: Sum of squares of the error, by sample.
    """
    columns = np.array([noise, signal], np.float64).T
    drawn = intervals.bootstrap_sums(columns)
    shares = [_error_share(n, s) for n, s in (columns.sum(axis=0), *drawn)]
    lo, hi = intervals.percentile_interval(np.array(shares[1:]))
    return Drop(ERROR, 100 * shares[0], 100 * lo, 100 * hi, len(columns))


def _error_share(noise: float, signal: float) -> float:
    if noise == 0:
        return 0.0
    return noise / signal if signal else math.inf


@dataclass(frozen=True)
class Budget:
    """A drop held against what may be lost.

    Attributes:
        points: What may be lost at most.
        drop: What is lost.
        verdict: ``held`` where the whole interval is within, ``exceeded`` where it is beyond, else ``undecided``.
        needed: Where undecided, about how many samples would decide it; None where no number would.
    """

    points: float
    drop: Drop
    verdict: str
    needed: int | None = None

    def __str__(self) -> str:
        if self.verdict != "undecided":
            return self.verdict
        need = "" if self.needed is None else f" (need about {self.needed})"
        return f"not enough samples to tell{need}"


def check_budget(drop: Drop, points: float) -> Budget:
    """Judge a drop by a budget.

    The number of samples needed is that at which an interval that shrinks as 1/√n leaves the budget outside.
    """
    if drop.hi <= points:
        return Budget(points, drop, "held")
    if drop.lo > points:
        return Budget(points, drop, "exceeded")
    distance = drop.points - points
    reach = drop.points - drop.lo if distance > 0 else drop.hi - drop.points
    with np.errstate(divide="ignore"):
        needed = drop.samples * float(np.square(np.divide(reach, distance)))
    return Budget(points, drop, "undecided", math.ceil(needed) if math.isfinite(needed) else None)


@dataclass(frozen=True)
class BudgetSearch:
    """What a search for the fewest nodes to leave float came to.

    Attributes:
        points: The budget.
        reached: Whether the drop on the search's samples is within it.
        drop: What is lost there.
        without: What is lost there with no node left float for the budget.
        samples: How many that is measured on.
        apart: Whether accuracy is measured on others.
        floats: The nodes left float for it, with the reason.
        measurements: How often the model was quantized and run on all of them.
        estimates: How often the float model was run on some of them to estimate costs; 0 where that was not needed.
        sources: Places where something is rounded: so many runs would measure each alone.
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
