"""The choice of the rule of the knee: one of the sets of float nodes, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ptq.data import Sample
from ptq.optimization.job import Job
from ptq.optimization.mixed_precision.attribution.error_injection import ErrorInjector
from ptq.optimization.mixed_precision.float_trade import FloatTrade
from ptq.optimization.mixed_precision.knee.decisions import CountedDecisions
from ptq.optimization.mixed_precision.knee.file_size_limit import KeptSaving
from ptq.optimization.mixed_precision.knee.knee_sets import FloatSet, SetLimits, find_float_sets
from ptq.optimization.mixed_precision.knee.saved_decisions import (
    SavedDecisions,
    choose_by_decisions,
)
from ptq.optimization.preference import DECISION_FLOOR, ERROR_FLOOR, PREFERENCES
from ptq.solver.quantizer import QuantizedModel


@dataclass(frozen=True)
class FloatChoice:
    """What the rule chose, and from what.

    Attributes:
        changed: The share of decisions that int8 changes; None if few enough.
        sets: The sets that gain enough; the cheapest first.
        best: The chosen one; None if there is none, or if none saves enough decisions.
        saved: The decisions that it saves, or the most expensive set if none was chosen; None if none were counted.
    """

    changed: float | None
    sets: Sequence[FloatSet] = ()
    best: FloatSet | None = None
    saved: SavedDecisions | None = None


def choose_float_set(
    job: Job,
    quantized: QuantizedModel,
    trade: FloatTrade,
    decisions: CountedDecisions | None,
    injector: ErrorInjector,
    passes: Sequence[Sequence[Sample]],
) -> FloatChoice:
    """The set of nodes that the rule leaves float, within the preference and the lowest speed of a job.

    Args:
        job: What is asked; it has calibration samples.
        quantized: The model with all in integers.
        trade: What float nodes gain and cost.
        decisions: What was counted; None where outputs decide nothing, and their error stands for it.
        injector: Measures errors.
        passes: As for `find_float_sets`.

    Raises:
        ModelError: ONNX Runtime does not take a model.
        DataError: A model fails on a sample.
    """
    preference, times = PREFERENCES[job.options.prefer], trade.times
    changed = _estimate_lost_decisions(decisions, float(trade.attribution.joint_shares.mean()))
    fastest = job.options.min_speedup
    most = times.in_float / times.all_int8 / fastest - 1 if fastest else np.inf
    limits = SetLimits(preference, changed, KeptSaving(quantized, preference.share_of_saving), most)
    sets = find_float_sets(trade, limits, injector, passes)
    if not sets:
        return FloatChoice(changed)
    lost = None if changed is None else decisions
    return FloatChoice(changed, sets, *choose_by_decisions(job, lost, quantized, sets))


def _estimate_lost_decisions(decisions: CountedDecisions | None, joint: float) -> float | None:
    """The share of decisions that int8 changes, if it is too large; else None.

    Args:
        decisions: What was counted; None where outputs decide nothing, and their error stands for it.
        joint: The error of the all-int8 model, as a share of the output's energy.
    """
    changed = joint / ERROR_FLOOR * DECISION_FLOOR if decisions is None else decisions.changed
    return changed if changed > DECISION_FLOOR else None
