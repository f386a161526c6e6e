"""Significance test: is the output error of one form of a model lower than that of another?

Output errors of samples differ by orders of magnitude, so their logarithms are compared. That test needs most samples
to gain. It misses a gain that comes from a few samples with most of the error, for example by clipped outliers. A
bootstrap of the sums finds such a gain, but it must then be larger.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from ptq.evaluation.intervals import bootstrap_sums

MAX_ERROR_RATIO, _MAX_ERROR_RATIO_FEW = 0.95, 0.5
"""The highest ratio of errors that counts as lower: if most samples agree, and if only a few samples gain."""
NEGLIGIBLE_ERROR = 10**-4.5
"""The share of the outputs' energy below which no trial is worth its time: 45 dB. Rounding the outputs alone to 8
bits causes about that error."""
STANDARD_ERRORS = 3.0
"""Standard errors by which the mean log error must be lower, where many changes are tried."""


def is_significantly_lower(
    errors: NDArray[np.float64],
    than: NDArray[np.float64],
    *,
    standard_errors: float = STANDARD_ERRORS,
) -> bool:
    """Whether errors are significantly lower than others on the same samples.

    The sum must be at least 5 % lower. In addition, either most samples gain, or the sum is less than half because
    a few samples gain much.

    Args:
        errors: The error of each sample; NaN if it was not run because the sum was too high.
        than: The errors to compare with.
        standard_errors: The confidence, in standard errors of a normal distribution.
    """
    if np.isnan(errors).any():
        return False
    ratio = errors.mean() / than.mean() if than.any() else 1.0
    usable = (errors > 0) & (than > 0)
    if ratio > MAX_ERROR_RATIO or usable.sum() < 2:
        return False
    log_ratios = np.log(errors[usable] / than[usable])
    return _is_significant_gain(log_ratios, standard_errors) or (
        bool(ratio < _MAX_ERROR_RATIO_FEW) and _sum_is_lower(errors, than, standard_errors)
    )


def is_hopeless(
    errors: NDArray[np.float64], than: NDArray[np.float64], checks: Collection[int]
) -> bool:
    """Whether errors cannot be lower than others any more, or are not lower at a check.

    Args:
        errors: The error of each sample so far; NaN for those that were not run yet.
        than: The errors to compare with.
        checks: After so many samples, the sum so far must be lower too.
    """
    known = ~np.isnan(errors)
    total, most = errors[known].sum(), MAX_ERROR_RATIO * than
    is_checked = int(known.sum()) in checks
    return bool(total > most.sum() or (is_checked and total > most[known].sum()))


def _is_significant_gain(log_ratios: NDArray[np.float64], standard_errors: float) -> bool:
    """Whether the mean of the log error ratios is below 0 by that many standard errors: a paired t-test."""
    error = log_ratios.std(ddof=1) / math.sqrt(log_ratios.size)
    return bool(log_ratios.mean() + standard_errors * error < 0)


def _sum_is_lower(
    errors: NDArray[np.float64], than: NDArray[np.float64], standard_errors: float
) -> bool:
    """Whether the sum is at least 5 % lower in enough bootstrap samples, by the confidence of a one-sided test."""
    drawn = bootstrap_sums(np.stack([errors, than], axis=1))
    lower = (drawn[:, 0] < MAX_ERROR_RATIO * drawn[:, 1]).mean()
    return bool(lower >= (1 + math.erf(standard_errors / math.sqrt(2))) / 2)
