"""How sure is a difference between two forms of a model that saw the same samples?

Counts are tested by McNemar's mid-p and bounded by Tango's score interval (Statistics in Medicine 17, 1998,
891–908; both recommended by Fagerland, Lydersen and Laake, ibid. 33, 2014, 2850–2875), a lone proportion by
Clopper and Pearson's exact interval, everything else by a bootstrap over samples whose draws are always the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

Interval = tuple[float, float]

CONFIDENCE = 0.95
BOOTSTRAP_DRAWS = 1000  # the ends of an interval vary by 3 % of its length from seed to seed
USER_METRIC_DRAWS = 200  # where every draw calls a function of the user's
MAX_POOLS = 2000
_SEED = 20240229


def mcnemar(lost: int, gained: int) -> float:
    """Two-sided mid-p of McNemar's test: how often chance alone would part the two numbers as far.

    Args:
        lost: Samples that the first form gets right and the second wrong.
        gained: Samples that the second alone gets right.
    """
    changed, fewer = lost + gained, min(lost, gained)
    below = float(scipy.special.bdtr(fewer - 1, changed, 0.5)) if fewer else 0.0
    at = float(scipy.special.bdtr(fewer, changed, 0.5)) - below
    if lost == gained:
        return 1 - at / 2
    return 2 * below + at


def tango_interval(
    lost: int, gained: int, samples: int, confidence: float = CONFIDENCE
) -> Interval:
    """Tango's score interval of the share lost, (lost − gained) / samples.

    Args:
        lost: Samples that the first form alone gets right.
        gained: Samples that the second alone gets right.
        samples: All samples, at least 1.
        confidence: Of the interval, two-sided.
    """
    z = float(scipy.special.ndtri((1 + confidence) / 2))
    centre = (lost - gained) / samples

    def score(share: float) -> float:
        return _tango_score(share, lost, gained, samples)

    return _bisect(score, z, -1.0, centre), _bisect(score, -z, centre, 1.0)


def _tango_score(share: float, lost: int, gained: int, samples: int) -> float:
    """Tango's T: the distance of the observed difference from ``share``, in its standard errors there."""
    b = -lost - gained + (2 * samples - lost + gained) * share
    c = -gained * share * (1 - share)
    second = (math.sqrt(max(b * b - 8 * samples * c, 0.0)) - b) / (4 * samples)
    variance = samples * (2 * second + share * (1 - share))
    distance = lost - gained - samples * share
    if variance <= 0:
        return math.copysign(math.inf, distance) if distance else 0.0
    return distance / math.sqrt(variance)


def _bisect(falling: Callable[[float], float], level: float, lo: float, hi: float) -> float:
    """Where a falling function passes a level, to the last digits that matter."""
    for _ in range(60):
        middle = (lo + hi) / 2
        lo, hi = (middle, hi) if falling(middle) > level else (lo, middle)
    return (lo + hi) / 2


def clopper_pearson_interval(count: int, samples: int, confidence: float = CONFIDENCE) -> Interval:
    """Clopper and Pearson's exact interval of a share, count / samples."""
    tail = (1 - confidence) / 2
    low = float(scipy.special.betaincinv(count, samples - count + 1, tail)) if count else 0.0
    high = (
        float(scipy.special.betaincinv(count + 1, samples - count, 1 - tail))
        if count < samples
        else 1.0
    )
    return low, high


def bootstrap_sums(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums over samples drawn with replacement.

    Args:
        columns: One row a sample. More than 2000 samples are pooled first, every 2000th together.

    Returns:
        One row a draw, shape (1000, columns).
    """
    pools = min(len(columns), MAX_POOLS)
    short = -len(columns) % pools
    padded = np.concatenate([columns, np.zeros((short, columns.shape[1]))])
    pooled = padded.reshape(-1, pools, columns.shape[1]).sum(axis=0)
    draws, infinite = _draw_counts(pools), np.isinf(pooled)
    sums: NDArray[np.float64] = draws @ np.where(infinite, 0.0, pooled)
    # zero times an infinity is no number
    return np.where(draws @ infinite.astype(np.float64) > 0, math.inf, sums)


def bootstrap_statistic(
    statistic: Callable[[NDArray[np.int64]], float], samples: int
) -> NDArray[np.float64]:
    """A statistic of samples drawn with replacement, 200 times.

    Args:
        statistic: What is computed of the samples at some indices.
        samples: Their number.
    """
    chosen = np.random.default_rng(_SEED).integers(0, samples, (USER_METRIC_DRAWS, samples))
    return np.array([statistic(rows) for rows in chosen], np.float64)


@lru_cache(maxsize=2)
def _draw_counts(samples: int) -> NDArray[np.float64]:
    """How often each sample is drawn, shape (draws, samples)."""
    chosen = np.random.default_rng(_SEED).integers(0, samples, (BOOTSTRAP_DRAWS, samples))
    return np.stack([np.bincount(row, minlength=samples) for row in chosen]).astype(np.float64)


def percentile_interval(values: NDArray[Any], confidence: float = CONFIDENCE) -> Interval:
    """The interval that holds the middle of the draws."""
    tail = (1 - confidence) / 2
    lo, hi = np.quantile(values, [tail, 1 - tail], method="inverted_cdf")
    return float(lo), float(hi)
