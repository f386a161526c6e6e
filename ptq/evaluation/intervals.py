"""Confidence intervals and tests for two forms of a model on the same samples.

- Counts: McNemar's mid-p test and Tango's score interval (Tango, Statistics in Medicine 17, 1998, 891–908). Both are
  recommended by Fagerland, Lydersen and Laake, Statistics in Medicine 33, 2014, 2850–2875.
- One proportion: the exact interval of Clopper and Pearson.
- A median: order statistics.
- Everything else: a bootstrap over samples with a fixed seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

Interval = tuple[float, float]
NO_INTERVAL: Interval = (-math.inf, math.inf)

CONFIDENCE = 0.95
BOOTSTRAP_DRAWS = 1000
"""The ends of an interval vary by 3 % of its length from seed to seed."""
USER_METRIC_DRAWS = 200
"""Draws for a user metric, which is called once for each draw."""
MAX_POOLS = 2000
_ROUGH_WIDTH = 1.25
"""Ratio of the ends from which the interval of a speed is wide: measured speeds usually have 1.05 to 1.1."""
_SEED = 20240229
_ROUNDING = 1e-12
"""Ratios of sums that are k times the same round by less."""
_BITS = 53
"""Bits of a float64."""


def compute_mcnemar_p_value(lost: int, gained: int) -> float:
    """Two-sided mid-p value of McNemar's test: probability of a difference at least as large by chance.

    It is 1 if no sample changes, although the half of the only outcome would be 0.5.

    Args:
        lost: Number of samples that only the first form gets right.
        gained: Number of samples that only the second form gets right.
    """
    changed, fewer = lost + gained, min(lost, gained)
    if not changed:
        return 1.0
    below = float(scipy.special.bdtr(fewer - 1, changed, 0.5)) if fewer else 0.0
    at = float(scipy.special.bdtr(fewer, changed, 0.5)) - below
    if lost == gained:
        return 1 - at / 2
    return 2 * below + at


def compute_median_interval(values: Sequence[float]) -> Interval:
    """Interval of the median by order statistics, for any distribution; 0 and infinity for fewer than 6 values."""
    ordered, cut = sorted(values), 0
    limit = int((1 - CONFIDENCE) / 2 * 2**_BITS) << len(ordered)  # more than a float holds
    below = 1  # the binomial coefficients up to ``cut``; in integers, because SciPy takes longer to load
    while cut < len(ordered) and below << _BITS <= limit:
        cut += 1
        below += math.comb(len(ordered), cut)
    return (ordered[cut - 1], ordered[-cut]) if cut else (0.0, math.inf)


def is_rough(interval: Interval) -> bool:
    """Whether the interval of a ratio is so wide that its median says little; False if there is no interval."""
    lo, hi = interval
    return hi > lo * _ROUGH_WIDTH and math.isfinite(hi)


def describe_speed(ratio: float, interval: Interval | None, reference: str, where: str) -> str:
    """A measured speed, with its interval if that is wide.

    Args:
        ratio: The speed relative to the reference.
        interval: Its 95 % interval; None if there is none.
        reference: What the speed is relative to, in words.
        where: What the models ran in, in words.
    """
    doubt = ""
    if interval is not None and is_rough(interval):
        doubt = f"; uncertain, 95 % CI {interval[0]:.2f} … {interval[1]:.2f}"
    return f"speed {ratio:.2f}× {reference} ({where}{doubt})"


def compute_tango_interval(lost: float, gained: float, samples: int) -> Interval:
    """Tango's score interval of the difference (lost − gained) / samples.

    Args:
        lost: Number of samples that only the first form gets right; a part of one too, for numbers in proportion.
        gained: Number of samples that only the second form gets right.
        samples: Number of all samples, at least 1.
    """
    z = float(scipy.special.ndtri((1 + CONFIDENCE) / 2))
    centre = (lost - gained) / samples

    def score(share: float) -> float:
        return _compute_tango_score(share, lost, gained, samples)

    return _bisect(score, z, -1.0, centre), _bisect(score, -z, centre, 1.0)


def _compute_tango_score(share: float, lost: float, gained: float, samples: int) -> float:
    """Tango's T: distance of the observed difference from ``share``, in standard errors at ``share``."""
    b = -lost - gained + (2 * samples - lost + gained) * share
    c = -gained * share * (1 - share)
    second = (math.sqrt(max(b * b - 8 * samples * c, 0.0)) - b) / (4 * samples)
    variance = samples * (2 * second + share * (1 - share))
    distance = lost - gained - samples * share
    if variance <= 0:
        return math.copysign(math.inf, distance) if distance else 0.0
    return distance / math.sqrt(variance)


def _bisect(falling: Callable[[float], float], level: float, lo: float, hi: float) -> float:
    """Argument in [lo, hi] at which a falling function reaches ``level``; 60 halvings exceed float64 precision."""
    for _ in range(60):
        middle = (lo + hi) / 2
        lo, hi = (middle, hi) if falling(middle) > level else (lo, middle)
    return (lo + hi) / 2


def compute_clopper_pearson_interval(count: float, samples: int) -> Interval:
    """Exact interval of Clopper and Pearson for the proportion count / samples."""
    tail = (1 - CONFIDENCE) / 2
    # at the ends the inverse beta function is a root; SciPy's functions take 0.2 s to load
    if count in (0, samples):
        reach = tail ** (1 / samples)
        return (reach, 1.0) if count else (0.0, 1 - reach)
    low = scipy.special.betaincinv(count, samples - count + 1, tail)
    high = scipy.special.betaincinv(count + 1, samples - count, 1 - tail)
    return float(low), float(high)


def widen_equal_draws(
    value: float, interval: Interval, samples: int, *, gains: bool = False
) -> Interval:
    """The interval of a bootstrap; where all draws are the same extreme, the exact one of as many samples.

    Equal samples have equal draws, which seem to exclude everything else. One sample has no interval, except at an
    extreme.

    Args:
        value: A share, or a difference of shares.
        interval: The interval of its draws.
        samples: Number of samples that count, each as one decision.
        gains: Whether it is a difference, which may be negative.
    """
    if not all(math.isclose(end, value, rel_tol=_ROUNDING) for end in interval):
        return interval
    extreme = float(np.rint(value))
    is_extreme = extreme in ((-1, 0, 1) if gains else (0, 1))
    if not is_extreme or not math.isclose(value, extreme, rel_tol=_ROUNDING):
        return NO_INTERVAL if samples == 1 else interval
    if gains:
        return compute_tango_interval(samples * (extreme > 0), samples * (extreme < 0), samples)
    return compute_clopper_pearson_interval(extreme * samples, samples)


def bootstrap_sums(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bootstrap: sums over samples that are drawn with replacement.

    Args:
        columns: Shape (samples, columns). More than 2000 samples are first pooled into 2000 sums: sample i belongs
            to pool i mod 2000.

    Returns:
        One row for each draw, shape (1000, columns).
    """
    pools = min(len(columns), MAX_POOLS)
    short = -len(columns) % pools
    padded = np.concatenate([columns, np.zeros((short, columns.shape[1]))])
    pooled = padded.reshape(-1, pools, columns.shape[1]).sum(axis=0)
    draws, infinite = _draw_counts(pools), np.isinf(pooled)
    sums: NDArray[np.float64] = draws @ np.where(infinite, 0.0, pooled)
    # 0 · inf is NaN, so infinite pools need their own product
    return np.where(draws @ infinite.astype(np.float64) > 0, math.inf, sums)


def bootstrap_means(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bootstrap: means over samples that are drawn with replacement.

    Pools of `bootstrap_sums` may hold one sample more than others, so draws differ in their number of samples.

    Args:
        columns: Shape (samples, columns).

    Returns:
        One row for each draw, shape (1000, columns).
    """
    sums = bootstrap_sums(np.concatenate([columns, np.ones((len(columns), 1))], axis=1))
    return sums[:, :-1] / sums[:, -1:]


def bootstrap_statistic(
    statistic: Callable[[NDArray[np.int64]], float], samples: int
) -> NDArray[np.float64]:
    """Bootstrap: 200 values of a statistic of samples that are drawn with replacement.

    Args:
        statistic: Function of sample indices.
        samples: Number of samples.
    """
    chosen = np.random.default_rng(_SEED).integers(0, samples, (USER_METRIC_DRAWS, samples))
    return np.array([statistic(rows) for rows in chosen], np.float64)


@lru_cache(maxsize=2)
def _draw_counts(samples: int) -> NDArray[np.float64]:
    """Number of times each sample is drawn, shape (draws, samples)."""
    chosen = np.random.default_rng(_SEED).integers(0, samples, (BOOTSTRAP_DRAWS, samples))
    return np.stack([np.bincount(row, minlength=samples) for row in chosen]).astype(np.float64)


def draw_sample_counts(samples: int) -> NDArray[np.float64]:
    """Bootstrap: how often each sample counts, shape (200, samples)."""
    return _draw_counts(samples)[:USER_METRIC_DRAWS]


def compute_defined_interval(draws: NDArray[np.float64]) -> Interval:
    """Percentile interval of the draws that are not NaN; none if these are less than half."""
    defined = draws[~np.isnan(draws)]
    return compute_percentile_interval(defined) if 2 * defined.size >= draws.size else NO_INTERVAL


def compute_percentile_interval(values: NDArray[Any]) -> Interval:
    """Percentile interval of bootstrap draws."""
    tail = (1 - CONFIDENCE) / 2
    lo, hi = np.quantile(values, [tail, 1 - tail], method="inverted_cdf")
    return float(lo), float(hi)
