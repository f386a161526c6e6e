"""Significance test: is the output error of one form of a model lower than that of another?"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ptq.evaluation.intervals import bootstrap_sums

MAX_ERROR_RATIO, _MAX_ERROR_RATIO_FEW = 0.95, 0.5
"""The highest ratio of errors that counts as lower: if most samples agree, and if only a few samples gain."""
STANDARD_ERRORS = 3.0
"""Standard errors by which the mean log error must be lower, where many changes are tried."""


def is_significantly_lower(
    errors: NDArray[np.float64],
    than: NDArray[np.float64],
    *,
    standard_errors: float = STANDARD_ERRORS,
) -> bool:
    """Whether errors are significantly lower than others on the same samples.

    1. The sum is at least 5 % lower, and a paired t-test of the log errors says so.
    2. Or the sum is less than half, and a bootstrap says so with the same confidence. This holds where a few
       samples cause most of the error, for example by clipped outliers.

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
    logs = np.log(errors[usable] / than[usable])
    if logs.mean() + standard_errors * logs.std(ddof=1) / math.sqrt(logs.size) < 0:
        return True
    drawn = bootstrap_sums(np.stack([errors, than], axis=1))
    lower = (drawn[:, 0] < MAX_ERROR_RATIO * drawn[:, 1]).mean()
    confidence = (1 + math.erf(standard_errors / math.sqrt(2))) / 2
    return bool(ratio < _MAX_ERROR_RATIO_FEW and lower >= confidence)
