"""The user's own metric: drops, and its value for a model alone.

The protocol is ``metric(outputs, samples)`` with two lists of equal length:

- ``outputs[i]`` are the model's outputs for ``samples[i]``: arrays by output name, with the axes of the model.
- ``samples[i].labels`` are its accepted classes, ``.name`` is its file or row, ``.feed`` are its inputs.

The metric returns one number for each sample, whose mean is the metric, or one number for all samples. Greater is
better and 1 is best. Drops are measured in points, hundredths of the metric. Each call gets copies, so a metric may
compute in place.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError, UsageError
from ptq.core.option_checks import require_callable
from ptq.data import Sample
from ptq.evaluation import intervals
from ptq.evaluation.drop import REPEATED, Drop
from ptq.evaluation.intervals import NO_INTERVAL
from ptq.evaluation.metrics import Figure

Outputs = Mapping[str, NDArray[Any]]
Metric = Callable[[list[dict[str, NDArray[Any]]], list[Sample]], Any]
"""A metric may declare wider types, such as ``Sequence[Mapping[str, NDArray[Any]]]``."""
_TOLERANCE = 1e-9
"""Share of a value, or points of a small one, by which sums over samples in another order round."""


def require_metric(metric: object) -> None:
    """Check that a metric can be called with outputs and samples.

    Raises:
        UsageError: It is not callable, or does not take two arguments.
    """
    require_callable("metric", metric)
    assert callable(metric)
    try:
        signature = inspect.signature(metric, follow_wrapped=False)  # a wrapper may add arguments
    except (TypeError, ValueError):  # some functions of C say nothing of their arguments
        return
    try:
        signature.bind([], [])
    except TypeError as error:
        raise UsageError(
            f"metric {name_metric(metric)} cannot be called with two arguments ({error}); "
            "write metric(outputs, samples)"
        ) from None


def measure_metric_drop(
    metric: Metric,
    before: Sequence[Outputs],
    after: Sequence[Outputs],
    samples: Sequence[Sample],
) -> Drop:
    """Drop of the metric, with a bootstrap interval over samples; without any change, with Tango's interval.

    A metric with one number for each sample is called once for each form. A metric with a single number is called
    200 more times for each form, for the interval. Resamples on which it fails or is undefined are left out, as the
    area under a curve is without one of its classes. If these are more than half, there is no interval. There is none
    either if it does not contain the drop: resamples repeat samples, and the metric treats repeated ones otherwise.

    Args:
        metric: The user's metric.
        before: Outputs of the float model, by sample.
        after: Outputs of the other form, by sample.
        samples: The samples.

    Raises:
        DataError: The metric raises an exception; the message contains it.
        UsageError: The metric returns neither one finite number nor one for each sample.
    """
    old, new = _call_metric(metric, before, samples), _call_metric(metric, after, samples)
    if old.ndim:
        lost = float(np.mean(old - new))
        draws = intervals.bootstrap_means((old - new)[:, None])[:, 0]
    else:
        lost = float(old - new)

        def loss(rows: NDArray[np.int64]) -> float:
            chosen = [samples[i] for i in rows]
            first, second = (
                _call_on_resample(metric, [form[i] for i in rows], chosen)
                for form in (before, after)
            )
            return first - second

        draws = intervals.bootstrap_statistic(loss, len(samples))
    count, doubt = len(samples), ""
    lo, hi = intervals.widen_equal_draws(
        lost, intervals.compute_defined_interval(draws), count, gains=True
    )
    if not _contains((lo, hi), lost):
        (lo, hi), doubt = NO_INTERVAL, REPEATED
    return Drop(name_metric(metric), 100 * lost, 100 * lo, 100 * hi, count, doubt=doubt)


def measure_metric(metric: Metric, outputs: Sequence[Outputs], samples: Sequence[Sample]) -> Figure:
    """The metric of one form of the model, with a bootstrap interval over samples, as for `measure_metric_drop`.

    Args:
        metric: The user's metric.
        outputs: Outputs of the form, by sample.
        samples: The samples.

    Raises:
        DataError: The metric raises an exception; the message contains it.
        UsageError: The metric returns neither one finite number nor one for each sample.
    """
    values, count = _call_metric(metric, outputs, samples), len(samples)
    value = float(np.mean(values))
    if values.ndim:
        draws = intervals.bootstrap_means(values[:, None])[:, 0]
    else:

        def again(rows: NDArray[np.int64]) -> float:
            return _call_on_resample(metric, [outputs[i] for i in rows], [samples[i] for i in rows])

        draws = intervals.bootstrap_statistic(again, count)
    interval = intervals.widen_equal_draws(value, intervals.compute_defined_interval(draws), count)
    doubt = ""
    if not _contains(interval, value):
        interval, doubt = NO_INTERVAL, REPEATED
    return Figure(name_metric(metric), value, interval, is_share=0 <= value <= 1, doubt=doubt)


def _contains(interval: intervals.Interval, value: float) -> bool:
    slack = _TOLERANCE * max(1.0, abs(value))
    return interval[0] - slack <= value <= interval[1] + slack


def name_metric(metric: Metric) -> str:
    """Name of a metric in reports."""
    return str(getattr(metric, "__name__", type(metric).__name__))


def _call_on_resample(
    metric: Metric, outputs: Sequence[Outputs], samples: Sequence[Sample]
) -> float:
    """The metric of samples that are drawn with replacement; NaN where it is undefined."""
    try:
        value = _call_metric(metric, outputs, samples)
    except (DataError, UsageError):
        return math.nan
    return float(value) if value.ndim == 0 else math.nan


def _call_metric(
    metric: Metric, outputs: Sequence[Outputs], samples: Sequence[Sample]
) -> NDArray[np.float64]:
    name = name_metric(metric)
    # user code may raise anything: one line for the user, the original exception chained
    try:
        lent = [{name: array.copy("K") for name, array in one.items()} for one in outputs]
        found = metric(lent, [_lend(sample) for sample in samples])
        value = np.asarray(found, np.float64)
    except (Exception, SystemExit) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"metric {name}: raised {type(error).__name__}: {reason}") from error
    if value.shape not in ((), (len(samples),)) or not np.isfinite(value).all():
        shown = value if found is not None else found  # None would be shown as nan
        raise UsageError(
            f"metric {name} returns {' '.join(str(shown).split())[:60]}; "
            "return one finite number, or one for each sample"
        )
    return value


class _LentSample(Sample):
    """A sample whose feed is copied when it is read: few metrics read it, and inputs are large."""

    _kept: Mapping[str, NDArray[Any]]

    @cached_property
    def feed(self) -> dict[str, NDArray[Any]]:
        return {name: array.copy("K") for name, array in self._kept.items()}


def _lend(sample: Sample) -> Sample:
    lent = object.__new__(_LentSample)
    vars(lent).update(name=sample.name, labels=sample.labels, _kept=sample.feed)
    return lent
