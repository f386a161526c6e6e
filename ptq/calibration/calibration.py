"""Statistics of a model: given, or collected from samples, as a whole or in folds for cross-validation."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

from ptq.calibration.checkpoint import Checkpoint
from ptq.calibration.collect import observe
from ptq.calibration.identify import Listing, find_contents, identify_samples
from ptq.calibration.memory_rounds import observe_in_rounds
from ptq.calibration.observe_splits import observe_splits
from ptq.core.errors import StatsError
from ptq.core.option_checks import require_path
from ptq.core.run_options import DEFAULT_RUN, RunOptions, SizedIterable
from ptq.data import Sample, Samples, split_folds
from ptq.data.preprocessing.recorded_preprocess import encode_preprocess
from ptq.model.graph import Graph
from ptq.model.node import find_clip_bounds, get_name, get_operator, get_shape, list_named_values
from ptq.model.session.exposed_session import CollectedTensors
from ptq.observers.calibration_file import Calibration, load
from ptq.observers.keep_limit import NONE_KEPT, KeepLimit
from ptq.observers.kept_samples import SampleKeeper
from ptq.rewrite.emit.bias_correction import list_channel_axes
from ptq.solver.assign import list_tensors_to_observe

FOLDS = 4
HALF = FOLDS // 2
"""Folds of one half of the samples."""
_MIN_SAMPLES = 2 * FOLDS
"""With fewer samples there is one fold: the samples that set the ranges evaluate them too."""


@dataclass(frozen=True, eq=False)
class CrossValidationFold:
    """One fold of the cross-validation of ranges.

    Attributes:
        calibration: Statistics of the samples that set the ranges. With several folds, these are the samples of
            the other half.
        samples: The samples that evaluate the ranges.
    """

    calibration: Calibration
    samples: Samples


def list_tensors_to_collect(graph: Graph) -> CollectedTensors:
    """The tensors of a prepared graph to observe, enough for every option of a quantization."""
    return CollectedTensors(
        list_tensors_to_observe(graph), list_channel_axes(graph), _clip_bounds(graph)
    )


def _clip_bounds(graph: Graph) -> dict[str, tuple[float, float]]:
    """The bounds of each tensor that a Clip writes."""
    return {
        get_name(node.outputs[0]): find_clip_bounds(node) or (-math.inf, math.inf)
        for node in graph.nodes
        if get_operator(node) == "Clip"
    }


def collect_statistics(
    graph: Graph,
    samples: Samples,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    keep: KeepLimit = NONE_KEPT,
    run: RunOptions = DEFAULT_RUN,
) -> Calibration:
    """Observe a prepared graph on samples; an existing checkpoint is continued.

    Args:
        graph: The prepared graph.
        samples: The samples.
        checkpoint: The file of the checkpoint.
        keep: The most samples that the statistics keep.
        run: How the job runs.

    Raises:
        DataError: A sample is missing, unreadable or does not fit.
        StatsError: The checkpoint belongs to another model or to other samples.
    """
    saved = None if checkpoint is None else Checkpoint(Path(checkpoint), graph.digest())
    keeper = SampleKeeper(keep) if keep else None

    def observe_round(
        tracked: SizedIterable[Sample],
        wanted: CollectedTensors,
        held: Collection[str],
        run: RunOptions,
    ) -> list[Calibration]:
        passing = tracked if keeper is None else keep_passing(keeper, tracked)
        return [observe(graph, passing, wanted, held=held, run=run, checkpoint=saved)]

    wanted, kept = list_tensors_to_collect(graph), "" if saved is None else "a checkpoint"
    [calibration] = observe_in_rounds(
        graph, samples, wanted, run, observe_round, keep=keep, only_one=kept
    )
    return add_sample_records(calibration, samples, keeper)


def add_sample_records(
    calibration: Calibration,
    samples: Samples,
    keeper: SampleKeeper | None,
    listing: Listing | None = None,
) -> Calibration:
    """Statistics with what they record of the samples that they count.

    Args:
        calibration: The statistics.
        samples: The samples, which were read.
        keeper: What keeps some of them.
        listing: That of all samples, if it is known.
    """
    return replace(
        calibration,
        skipped=tuple(samples.skipped),
        preprocess=encode_preprocess(samples.preprocess),
        contents=find_contents(samples),
        identity=identify_samples(samples, listing),
        kept=None
        if keeper is None
        else keeper.keep(dict(zip(samples.names, samples.identities, strict=True))),
    )


def keep_passing(keeper: SampleKeeper, samples: Iterable[Sample]) -> Iterator[Sample]:
    """The samples, of which some are kept while they pass."""
    for sample in samples:
        keeper.add(sample.digest, sample.name, sample.feed)
        yield sample


def collect_in_folds(
    graph: Graph,
    samples: Samples,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    run: RunOptions,
) -> tuple[Calibration, list[CrossValidationFold]]:
    """Observe a prepared graph on samples; return the statistics of all samples, and the folds.

    There are 4 folds. The ranges that one half of the samples sets are evaluated on the two folds of the other half:
    ranges take time.
    There is one fold of all samples if there are fewer than 8 samples, or with a checkpoint.

    Raises:
        DataError: A sample is missing, unreadable or does not fit.
        StatsError: The checkpoint belongs to another model or to other samples.
    """
    if checkpoint is not None or len(samples) < _MIN_SAMPLES:
        whole = collect_statistics(graph, samples, checkpoint=checkpoint, run=run)
        return whole, [CrossValidationFold(whole, samples)]
    splits = split_folds(samples, FOLDS)
    names = [split.names for split in splits]

    def observe_round(
        tracked: SizedIterable[Sample],
        wanted: CollectedTensors,
        held: Collection[str],
        run: RunOptions,
    ) -> list[Calibration]:
        return observe_splits(graph, tracked, wanted, names, held=held, run=run)

    wanted = list_tensors_to_collect(graph)
    observed = observe_in_rounds(graph, samples, wanted, run, observe_round, splits=FOLDS)
    preprocess = encode_preprocess(samples.preprocess)
    observed = [
        replace(
            statistics,
            preprocess=preprocess,
            contents=find_contents(split),
        )
        for statistics, split in zip(observed, splits, strict=True)
    ]
    whole = replace(
        reduce(Calibration.merge, observed),
        skipped=tuple(samples.skipped),
        identity=identify_samples(samples),
    )
    bad = {name for name, _ in samples.skipped}
    halves = [
        reduce(Calibration.merge, observed[half * HALF : half * HALF + HALF]) for half in range(2)
    ]
    folds = []
    for index, split in enumerate(splits):
        other = halves[index < HALF]
        if observed[index].samples and other.samples:
            folds.append(CrossValidationFold(other, _without_bad(bad, split)))
    return whole, folds or [CrossValidationFold(whole, _without_bad(bad, samples))]


def _without_bad(bad: Collection[str], samples: Samples) -> Samples:
    return samples.subset(lambda name: name not in bad) if bad else samples


def load_or_collect(
    graph: Graph,
    samples: Samples | None,
    stats: Calibration | None,
    *,
    checkpoint: str | os.PathLike[str] | None,
    run: RunOptions,
) -> tuple[Calibration, list[CrossValidationFold]]:
    """The given statistics, else those collected from the samples; and the folds that evaluate ranges.

    With neither statistics nor samples, the result holds no tensors and there are no folds.

    Raises:
        DataError: A sample is missing, unreadable or does not fit.
        StatsError: The statistics or the checkpoint belong to another model or to other samples.
    """
    if stats is not None:
        calibration = require_same_graph(stats, graph)
        return calibration, [] if samples is None else [CrossValidationFold(calibration, samples)]
    if samples is None:
        return Calibration(graph.digest(), 0, {}), []
    return collect_in_folds(graph, samples, checkpoint=checkpoint, run=run)


def open_statistics(stats: Calibration | str | os.PathLike[str] | None) -> Calibration | None:
    """The statistics, loaded if a path is given.

    Raises:
        StatsError: The file is missing, damaged, or of another kind.
        UsageError: It is neither statistics nor a path.
    """
    if stats is None or isinstance(stats, Calibration):
        return stats
    require_path("stats", stats, "a Calibration")
    return load(Path(stats))


def require_same_graph(stats: Calibration, graph: Graph) -> Calibration:
    """Return statistics of an earlier calibration after a check that they belong to this graph.

    Raises:
        StatsError: They belong to another graph, or a tensor has another number of channels.
    """
    if stats.graph != graph.digest():
        raise StatsError(
            "the statistics belong to another graph; calibrate this model again. Those of a quantization may belong "
            "to equalized weights: give its plan or its data with them"
        )
    shapes = {
        get_name(value): get_shape(value) or () for value in list_named_values(graph.model.graph)
    }
    for name, sums in stats.channels.items():
        shape, counted = shapes.get(name, ()), 0 if sums.mean is None else sums.mean.size
        channels = shape[sums.axis] if -len(shape) <= sums.axis < len(shape) else None
        if counted and channels not in (None, counted):
            raise StatsError(
                f"tensor {name} has {counted} channels in the statistics and {channels} in the model; calibrate again"
            )
    return stats
