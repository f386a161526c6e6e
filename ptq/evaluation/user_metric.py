"""How is a metric of the user's asked what a form of the model is worth?

The protocol: ``metric(outputs, samples)`` is given two lists of equal length. ``outputs[i]`` holds what the model
made of ``samples[i]``, arrays by output name, with the axes that the model gives them; ``samples[i].labels`` are
its acceptable classes, ``.name`` its file or row, ``.feed`` its inputs. It returns one number a sample, whose mean
is the metric, or one number for them all; greater is better, and 1 is the best there is: a drop is counted in
hundredths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError, UsageError
from ptq.data import Sample
from ptq.evaluation import intervals
from ptq.evaluation.drop import Drop

Outputs = Mapping[str, NDArray[Any]]
Metric = Callable[[Sequence[Outputs], Sequence[Sample]], Any]


def metric_drop(
    metric: Metric,
    before: Sequence[Outputs],
    after: Sequence[Outputs],
    samples: Sequence[Sample],
) -> Drop:
    """What the metric loses, with a bootstrap over samples.

    A metric of one number a sample is asked once for each form; one of a single number 200 times more for each,
    for the interval.

    Raises:
        DataError: The metric raises; the text says what.
        UsageError: It returns neither one finite number nor one a sample.
    """
    was, now = _call_metric(metric, before, samples), _call_metric(metric, after, samples)
    if was.ndim:
        points = 100 * float(np.mean(was - now))
        drawn = 100 * intervals.bootstrap_sums((was - now)[:, None])[:, 0] / len(samples)
    else:
        points = 100 * float(was - now)

        def lost(rows: NDArray[np.int64]) -> float:
            chosen = [samples[i] for i in rows]
            first = _call_metric(metric, [before[i] for i in rows], chosen)
            return float(first - _call_metric(metric, [after[i] for i in rows], chosen))

        drawn = 100 * intervals.bootstrap_statistic(lost, len(samples))
    return Drop(name_of_metric(metric), points, *intervals.percentile_interval(drawn), len(samples))


def name_of_metric(metric: Metric) -> str:
    """What reports call it."""
    return str(getattr(metric, "__name__", type(metric).__name__))


def _call_metric(
    metric: Metric, outputs: Sequence[Outputs], samples: Sequence[Sample]
) -> NDArray[np.float64]:
    name = name_of_metric(metric)
    # The metric is the user's own code: whatever it raises is said in one line, and chained.
    try:
        answer = np.asarray(metric(outputs, samples), np.float64)
    except (Exception, SystemExit) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"metric {name}: raised {type(error).__name__}: {reason}") from error
    if answer.shape not in ((), (len(samples),)) or not np.isfinite(answer).all():
        raise UsageError(
            f"metric {name} returns {' '.join(str(answer).split())[:60]}; "
            "return one finite number, or one for each sample"
        )
    return answer
