"""The sets of float nodes that the rule of the knee weighs, and those that it takes.

Sets are proposed by estimates to first order. Errors of several sources may cancel or add up, so the error that each
set leaves is then measured with all other sources together. On few samples the best of many sets is best by chance
too: those that would be taken are measured again on other samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ptq.data import Sample
from ptq.optimization.mixed_precision.attribution.error_attribution import (
    list_remaining,
    measure_joint_errors,
)
from ptq.optimization.mixed_precision.attribution.error_injection import ErrorInjector
from ptq.optimization.mixed_precision.attribution.float_candidates import find_cheap_extras
from ptq.optimization.mixed_precision.float_trade import FloatTrade
from ptq.optimization.mixed_precision.frontier.frontier_points import list_points
from ptq.optimization.mixed_precision.knee.file_size_limit import KeptSaving
from ptq.optimization.preference import DECISION_FLOOR, Preference

_MAX_SETS = 12
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


@dataclass(frozen=True)
class SetLimits:
    """What a set of float nodes may cost, and what it has to gain.

    Attributes:
        preference: The limits of time and error.
        changed: The share of decisions that int8 changes; None if few enough.
        saving: Decides whether a set leaves enough of the bytes that integers save.
        most: The most time that may be spent, as a share of the all-int8 model's.
    """

    preference: Preference
    changed: float | None
    saving: KeptSaving
    most: float = np.inf

    @property
    def times(self) -> tuple[float, ...]:
        """The limits of time that are tried, as shares of the all-int8 model's."""
        return self.preference.list_limits(self.changed)


def find_float_sets(
    trade: FloatTrade,
    limits: SetLimits,
    injector: ErrorInjector,
    passes: Sequence[Sequence[Sample]],
) -> list[FloatSet]:
    """The sets that the rule takes, one for each limit of the time that gains enough; the cheapest first.

    Args:
        trade: What float nodes gain and cost.
        limits: What a set may cost.
        injector: Measures errors.
        passes: The samples to measure all sets on; then further samples, which must confirm the gain. One without
            samples is left out.

    Raises:
        DataError: The model fails on a sample; the text names it.
    """
    times, saving = trade.times, limits.saving
    allowed = replace(trade, cost=saving.limit(trade.cost))
    proposed = dict.fromkeys(_propose_sets(allowed, limits))
    limit = min(limits.times[-1], limits.most)
    spent = {one: times.estimate(one) / times.all_int8 - 1 for one in proposed}
    sets = [
        one for one in proposed if spent[one] <= limit and saving.allows(times.add_neighbours(one))
    ]
    if not sets:
        return []
    for samples in filter(None, passes):
        left = [list_remaining(injector.probe.sources, one) for one in (frozenset(), *sets)]
        whole, *errors = measure_joint_errors(injector, left, samples).mean(axis=0)
        measured = [FloatSet(of, spent[of], e / whole) for of, e in zip(sets, errors, strict=True)]
        chosen = choose_for_each_limit(measured, limits.preference, limits.changed)
        sets = [one.floats for one in chosen]
    return chosen


def choose_for_each_limit(
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


def _propose_sets(trade: FloatTrade, limits: SetLimits) -> Iterator[frozenset[str]]:
    """Few nodes with large errors for each limit; then points of the curve, where each node gains a little."""
    found, all_int8 = trade.attribution, trade.times.all_int8
    for limit in limits.times:
        best = find_cheap_extras(
            found.sources,
            found.mean_shares[None],
            frozenset(),
            trade.cost,
            least=limits.preference.find_least_gain(limits.changed),
            most=limit * all_int8,
        )
        if best:
            yield best
    points = [
        point.floats
        for point in list_points(trade)
        if point.floats and point.time <= (1 + limits.times[-1]) * all_int8
    ]
    yield from (
        points[k]
        for k in sorted({*np.linspace(0, len(points) - 1, _MAX_SETS).round().astype(int)})
        if points
    )
