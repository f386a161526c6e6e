"""Are channels to be made alike between layers before anything is observed, and what does that gain?

Where one scale serves a whole weight; scales of their own for each channel need no such help. What is done and
whether it pays is decided on calibration samples: three of four say how far channels go, the rest what it gains.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ptq.calibrate import Wanted, exposing
from ptq.data import Sample, Samples
from ptq.errors import DataError
from ptq.gather import gathered
from ptq.metrics import numbers
from ptq.nodes import name_of
from ptq.observers.channels import channel_extremes
from ptq.observers.store import Calibration
from ptq.pipeline import Ground, Recipe, planned, written
from ptq.plan import Plan
from ptq.rewrite.counted import counted
from ptq.rewrite.equalize import Extremes, equalize
from ptq.rewrite.linear_pairs import pairs
from ptq.rewrite.prepare import Prepared
from ptq.rewrite.scores import scores
from ptq.session import Session
from ptq.targets import target

SAMPLES = 256  # of the model; channels go little further on more
_CALIBRATED = 64  # of them, for the trial
_EACH = 4  # every fourth is judged on
_LEAST = 0.1  # decibels that a gain is worth


def equalized(
    name: str,
    prepared: Prepared,
    samples: Samples | None,
    recipe: Recipe,
    *,
    stats: Calibration | None = None,
    plan: Plan | None = None,
    threads: int = 0,
) -> Prepared:
    """The model with channels equalized, where the recipe has one scale a weight and that gains.

    Statistics and plans hold for one graph: given any, the model is equalized where that makes it theirs.

    Args:
        name: What the model is called.
        prepared: It.
        samples: For calibration; without any it stays as it is.
        recipe: What will be asked.
        stats: Statistics that will be used instead of gathered.
        plan: A plan that will be obeyed.
        threads: Threads for one operator; 0 is one a core.

    Raises:
        DataError: A sample is unreadable, does not fit, or the model fails on it.
    """
    given = plan.graph if plan else stats.graph if stats else None
    whole = recipe.per_tensor or not target(recipe.target).per_channel
    if not (given or whole) or (samples is None and stats is None) or not pairs(prepared.graph):
        return prepared
    if given == prepared.graph.digest():
        left = "left channels unequal: the statistics given are of the model as it is"
        return (
            replace(prepared, changes=(*prepared.changes, left)) if whole and not plan else prepared
        )
    if samples is None:
        return prepared
    some = samples.spread(SAMPLES)
    judged = range(0, len(some), _EACH) if len(some) >= _EACH else range(0)
    learnt = some.subset(i for i in range(len(some)) if i not in judged)
    changed, count = equalize(prepared.graph, extremes(prepared, learnt, threads))
    if not count:
        return prepared
    note = f"equalized the channels between {counted(count, 'pair')} of layers"
    after = Prepared(changed, (*prepared.changes, note))
    if given:
        return after if changed.digest() == given else prepared
    trial = some.subset(judged) if judged else learnt
    few = learnt.spread(_CALIBRATED)
    truth = Session(scores(prepared.graph), threads=threads)
    reached = [_reached(name, p, recipe, few, trial, truth, threads) for p in (prepared, after)]
    figures = "{:.1f} → {:.1f} dB".format(*reached)
    if not reached[1] > reached[0] + _LEAST:
        left = f"left channels unequal: signal over error on held-out samples {figures}"
        return replace(prepared, changes=(*prepared.changes, left))
    gained = f"{note}: signal over error on held-out samples {figures}"
    return Prepared(changed, (*prepared.changes, gained))


def extremes(prepared: Prepared, samples: Samples, threads: int = 0) -> Extremes:
    """The extremes of the channels that could be scaled, over all samples.

    Raises:
        DataError: A sample is unreadable, does not fit, or the model fails on it.
    """
    names = [pair.output for pair in pairs(prepared.graph)]
    session = exposing(prepared.graph, Wanted(names), threads=threads)
    seen: dict[str, tuple[NDArray[np.float32], NDArray[np.float32]]] = {}
    for sample in samples:
        for tensor, array in zip(names, _run(session, sample, names), strict=True):
            if array.size:
                lo, hi = channel_extremes(array.astype(np.float32), 1)
                least, greatest = seen.get(tensor, (lo, hi))
                seen[tensor] = np.minimum(lo, least), np.maximum(hi, greatest)
    return seen


def _reached(
    name: str,
    prepared: Prepared,
    recipe: Recipe,
    calibrated: Samples,
    judged: Samples,
    truth: Session,
    threads: int,
) -> float:
    """Signal over error of the outputs, in decibels, the mean of all, with weights rounded to the nearest."""
    prepared = replace(prepared, graph=scores(prepared.graph))
    statistics = gathered(prepared.graph, calibrated, threads=threads)
    ground = Ground(name, prepared.graph, prepared, statistics)
    made = written(ground, replace(recipe, rounding="nearest"), planned(ground, recipe))
    session = Session(made.quantized, threads=threads)
    names = [name_of(value) for value in prepared.graph.outputs]
    signal, noise = np.zeros((2, len(names)))
    for sample in judged:
        outputs = zip(_run(truth, sample, names), _run(session, sample, names), strict=True)
        for place, (real, got) in enumerate(outputs):
            finite = np.isfinite(real)
            signal[place] += np.square(real[finite]).sum()
            noise[place] += np.square(real[finite] - got[finite]).sum()
    tiny = np.finfo(np.float64).tiny
    ratios = np.maximum(signal, tiny) / np.maximum(noise, tiny)
    return float(np.mean(10 * np.log10(ratios))) if np.isfinite(noise).all() else -math.inf


def _run(session: Session, sample: Sample, names: list[str]) -> list[NDArray[np.float64]]:
    try:
        return [numbers(a).astype(np.float64) for a in session.run(sample.feed, names)]
    except DataError as error:
        raise DataError(f"{sample.name}: {error}") from error
