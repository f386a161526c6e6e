"""The sets of float nodes that the rule of the knee weighs, and those that it takes.

Sets are proposed by estimates to first order. Errors of several sources may cancel or add up, so the error that each
set leaves is then measured with all other sources together. On few samples the best of many sets is best by chance
too: those that would be taken are measured again on other samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ptq.data import Sample
from ptq.optimization.mixed_precision.decisions import CountedDecisions
from ptq.optimization.mixed_precision.error_attribution import (
    ErrorAttribution,
    list_remaining,
    measure_joint_errors,
)
from ptq.optimization.mixed_precision.error_injection import ErrorInjector
from ptq.optimization.mixed_precision.float_candidates import CostFunction, cheap_extras
from ptq.optimization.mixed_precision.frontier_points import list_points
from ptq.optimization.mixed_precision.kept_saving import KeptSaving
from ptq.optimization.mixed_precision.model_times import ModelTimes
from ptq.optimization.preference import DECISION_FLOOR, ERROR_FLOOR, Preference

_MOST_SETS = 12
"""Sets of the curve whose error is measured; each takes one run of each sample."""
_NEARLY_LOWEST = 16 / 15
"""A set whose error is at most so many times the lowest one is taken if it costs less time."""


@dataclass(frozen=True)
class FloatSet:
    """Nodes that may stay float.

    Attributes:
        floats: Their names.
        spent: The time that they cost, as a share of the all-int8 model's; below 0 if they save some.
        error: The error that is left, as a share of the all-int8 model's; measured.
    """

    floats: frozenset[str]
    spent: float
    error: float


def estimate_lost_decisions(decisions: CountedDecisions | None, joint: float) -> float | None:
    """The share of decisions that int8 changes, if it is too large; else None.

    Args:
        decisions: What was counted; None where outputs decide nothing, and their error stands for it.
        joint: The error of the all-int8 model, as a share of the output's energy.
    """
    changed = joint / ERROR_FLOOR * DECISION_FLOOR if decisions is None else decisions.changed
    return changed if changed > DECISION_FLOOR else None


def find_float_sets(
    injector: ErrorInjector,
    samples: Sequence[Sample],
    others: Sequence[Sample],
    found: ErrorAttribution,
    price: CostFunction,
    times: ModelTimes,
    preference: Preference,
    changed: float | None,
    saving: KeptSaving,
    *,
    most: float = np.inf,
) -> list[FloatSet]:
    """The sets that the rule takes, one for each limit of the time that gains enough; the cheapest first.

    Args:
        injector: Measures errors.
        samples: The samples to measure all sets on.
        others: Further samples, which must confirm the gain; empty if there are none.
        found: The error of each source.
        price: The passes that float nodes cost.
        times: Estimates the time of the whole model.
        preference: The limits.
        changed: The share of decisions that int8 changes; None if few enough.
        saving: Decides whether a set leaves enough of the bytes that integers save.
        most: The most time that may be spent, as a share of the all-int8 model's.

    Raises:
        DataError: The model fails on a sample; the text names it.
    """
    allowed = saving.limit(price)
    proposed = dict.fromkeys(_propose_sets(found, allowed, times, preference, changed))
    limit = min(preference.list_limits(changed)[-1], most)
    spent = {one: times.estimate(one) / times.all_int8 - 1 for one in proposed}
    sets = [
        one for one in proposed if spent[one] <= limit and saving.allows(times.add_neighbours(one))
    ]
    if not sets:
        return []
    for some in filter(None, (samples, others)):
        left = [list_remaining(injector.probe.sources, one) for one in (frozenset(), *sets)]
        whole, *errors = measure_joint_errors(injector, left, some).mean(axis=0)
        measured = [FloatSet(of, spent[of], e / whole) for of, e in zip(sets, errors, strict=True)]
        chosen = choose_float_sets(measured, preference, changed)
        sets = [one.floats for one in chosen]
    return chosen


def choose_float_sets(
    measured: Sequence[FloatSet], preference: Preference, changed: float | None
) -> list[FloatSet]:
    """The set of each limit that lowers the error of the one before enough; the cheapest first.

    The next one of `Preference.list_limits` is tried while too many decisions change.
    """
    chosen, left = list[FloatSet](), 1.0
    for limit in preference.list_limits(changed):
        within = [one for one in measured if one.spent <= limit]
        lowest = min((one.error for one in within), default=np.inf)
        if lowest <= left * preference.find_required_error(changed):
            near = [one for one in within if one.error <= lowest * _NEARLY_LOWEST]
            best = min(near, key=lambda one: (one.spent, sorted(one.floats)))
            chosen, left = [*chosen, best], best.error
        if changed is not None and changed * np.sqrt(left) <= DECISION_FLOOR:
            break
    return chosen


def _propose_sets(
    found: ErrorAttribution,
    price: CostFunction,
    times: ModelTimes,
    preference: Preference,
    changed: float | None,
) -> Iterator[frozenset[str]]:
    """Few nodes with large errors for each limit; then points of the curve, where each node gains a little."""
    limits, shares = preference.list_limits(changed), found.mean_shares[None]
    for limit in limits:
        best = cheap_extras(
            found.sources,
            shares,
            frozenset(),
            price,
            least=preference.find_least_gain(changed),
            most=limit * times.all_int8,
        )
        if best:
            yield best
    points = [
        point.floats
        for point in list_points(found, price, times)
        if point.floats and point.time <= (1 + limits[-1]) * times.all_int8
    ]
    yield from (
        points[k]
        for k in sorted({*np.linspace(0, len(points) - 1, _MOST_SETS).round().astype(int)})
        if points
    )
