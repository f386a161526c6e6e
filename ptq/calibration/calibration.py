"""How are the statistics of a model gathered: from a file, in this process, or in several?"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

from ptq.calibration.checkpoint import Checkpoint
from ptq.calibration.collect import observe, observe_splits
from ptq.core.errors import StatsError
from ptq.core.run_options import DEFAULT_RUN, RunOptions
from ptq.data import Samples, split_folds
from ptq.model.exposed_session import CollectedTensors
from ptq.model.graph import Graph
from ptq.observers.calibration_file import Calibration, load
from ptq.rewrite.emit.bias_correction import channel_axes
from ptq.solver.solve import tensors_to_observe

FOLDS = 4
_MIN_SAMPLES = 2 * FOLDS
"""Samples: fewer judge ranges that they have set themselves."""


@dataclass(frozen=True, eq=False)
class Fold:
    """What ranges are judged by.

    Attributes:
        calibration: Statistics of the samples that set the ranges: all others, where there are several folds.
        samples: Those to judge on.
    """

    calibration: Calibration
    samples: Samples


def tensors_to_collect(graph: Graph) -> CollectedTensors:
    """What to observe of a prepared graph, whatever will be asked of the statistics."""
    return CollectedTensors(tensors_to_observe(graph), channel_axes(graph))


def collect_statistics(
    graph: Graph,
    samples: Samples,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    run: RunOptions = DEFAULT_RUN,
) -> Calibration:
    """Observe a prepared graph on samples, from where a checkpoint stopped.

    Raises:
        DataError: A sample is missing, unreadable or does not fit.
        StatsError: The checkpoint belongs to something else.
    """
    keeper = None if checkpoint is None else Checkpoint(Path(checkpoint), graph.digest())
    counted = run.track(samples, "calibrating")
    calibration = observe(graph, counted, tensors_to_collect(graph), keeper=keeper, run=run)
    return replace(calibration, skipped=tuple(samples.skipped))


def collect_in_folds(
    graph: Graph,
    samples: Samples,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    run: RunOptions = DEFAULT_RUN,
) -> tuple[Calibration, list[Fold]]:
    """As `gathered`, with what ranges are to be judged by: each quarter of the samples judges what the others set.

    One fold holds all of them where they are few or a checkpoint is kept.

    Raises:
        DataError: A sample is missing, unreadable or does not fit.
        StatsError: The checkpoint belongs to something else.
    """
    if checkpoint is not None or len(samples) < _MIN_SAMPLES:
        whole = collect_statistics(graph, samples, checkpoint=checkpoint, run=run)
        return whole, [Fold(whole, samples)]
    parts, read = split_folds(samples, FOLDS), run.track(samples, "calibrating")
    seen = observe_splits(graph, read, tensors_to_collect(graph), [p.names for p in parts], run=run)
    whole = replace(reduce(Calibration.merge, seen), skipped=tuple(samples.skipped))
    bad = {name for name, _ in samples.skipped}
    judges = []
    for place, part in enumerate(parts):
        others = reduce(Calibration.merge, seen[:place] + seen[place + 1 :])
        if seen[place].samples and others.samples:
            judges.append(Fold(others, _without_bad(bad, part)))
    return whole, judges or [Fold(whole, _without_bad(bad, samples))]


def _without_bad(bad: Collection[str], samples: Samples) -> Samples:
    return samples.subset(lambda name: name not in bad) if bad else samples


def load_or_collect(
    graph: Graph,
    samples: Samples | None,
    stats: Calibration | None,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    run: RunOptions = DEFAULT_RUN,
) -> tuple[Calibration, list[Fold]]:
    """Statistics as they are given, else those of the samples, none where there are none; and what judges ranges.

    Raises:
        DataError: A sample is missing, unreadable or does not fit.
        StatsError: The statistics or the checkpoint belong to something else.
    """
    if stats is not None:
        calibration = require_same_graph(stats, graph.digest())
        return calibration, [] if samples is None else [Fold(calibration, samples)]
    if samples is None:
        return Calibration(graph.digest(), 0, {}), []
    return collect_in_folds(graph, samples, checkpoint=checkpoint, run=run)


def open_statistics(stats: Calibration | str | os.PathLike[str] | None) -> Calibration | None:
    """Statistics as they are, or out of their file.

    Raises:
        StatsError: The file is missing, damaged, or of another kind.
    """
    return stats if stats is None or isinstance(stats, Calibration) else load(Path(stats))


def require_same_graph(stats: Calibration, digest: str) -> Calibration:
    """Statistics of an earlier calibration, which must be of this graph.

    Raises:
        StatsError: They are of another graph.
    """
    if stats.graph != digest:
        raise StatsError("the statistics belong to another graph; calibrate this model again")
    return stats
