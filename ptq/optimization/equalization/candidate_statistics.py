"""Statistics of a candidate, a model with scaled channels, from the values of the plain model.

A scaled channel has the plain model's values times its factor, so no run is needed for it. What a candidate computes
in addition is observed.
"""

from __future__ import annotations

from dataclasses import replace

from ptq.calibration.calibration import FOLDS, list_tensors_to_collect
from ptq.calibration.measured_tensors import MeasuredTensors, Source
from ptq.calibration.observe_splits import observe_splits
from ptq.core.run_options import RunOptions
from ptq.data import Samples, rank_by_digest
from ptq.model.graph import Graph
from ptq.model.node import get_name
from ptq.model.session.exposed_session import CollectedTensors
from ptq.observers.calibration_file import Calibration
from ptq.rewrite.equalize.boundary_scales import find_boundary_scale_nodes
from ptq.rewrite.equalize.channel_groups import group_channels
from ptq.rewrite.equalize.scale_channels import to_group_factors
from ptq.rewrite.prepare.prepare import PreparedModel

HALVES = 2
_OBSERVED_SAMPLES = 32
"""Samples on which the tensors are observed that the plain model does not have."""


def is_derivable(plain: Graph, candidate: PreparedModel) -> bool:
    """Whether the candidate is the plain model, or the plain model with channels scaled by its factors."""
    return candidate.graph is plain or bool(candidate.channel_factors)


def derive_statistics(
    plain: Graph,
    candidate: PreparedModel,
    measured: MeasuredTensors,
    samples: Samples,
    run: RunOptions,
) -> list[Calibration]:
    """The statistics of a candidate in each half of the samples.

    Args:
        plain: The plain model.
        candidate: The candidate, which must be derivable.
        measured: The values of the plain model's tensors.
        samples: The samples of which those with the lowest digests were measured.
        run: How the job runs.

    Raises:
        DataError: The candidate fails on a sample; the text names it.
    """
    wanted, sources = (
        list_tensors_to_collect(candidate.graph),
        _find_sources(plain, candidate, measured),
    )
    tensors = {name: sources[name] for name in wanted.tensors if name in sources}
    summed = {name: sources[name] for name in wanted.channel_axes if name in sources}
    halves = [
        measured.to_calibration(range(half, FOLDS, HALVES), tensors, summed)
        for half in range(HALVES)
    ]
    missing = CollectedTensors(
        [name for name in wanted.tensors if name not in sources],
        {name: axis for name, axis in wanted.channel_axes.items() if name not in sources},
    )
    if not missing.names:
        return halves
    chosen = rank_by_digest(samples)[:_OBSERVED_SAMPLES]
    names = [chosen[half::HALVES] for half in range(HALVES)]
    subset = samples.subset(set(chosen).__contains__)
    observed = observe_splits(candidate.graph, subset, missing, names, run=run)
    return [
        replace(
            half,
            tensors={**half.tensors, **more.tensors},
            channels={**half.channels, **more.channels},
        )
        for half, more in zip(halves, observed, strict=True)
    ]


def add_wider_statistics(
    calibration: Calibration, plain: Graph, candidate: PreparedModel, wider: Calibration
) -> Calibration:
    """The statistics of a candidate, with those of more samples for the tensors that have the plain model's values.

    Args:
        calibration: The statistics of the candidate.
        plain: The plain model.
        candidate: The plain model with scaled channels.
        wider: The statistics of the plain model on more samples.
    """
    found = group_channels(plain, boundaries=candidate.boundaries)
    by_group = to_group_factors(found, candidate.channel_factors)
    scaled = {name for name, groups in found.groups.items() if (by_group[groups] != 1).any()}
    same = calibration.tensors.keys() - scaled - candidate.boundaries.keys()
    return replace(
        calibration,
        tensors={
            n: wider.tensors.get(n, of) if n in same else of
            for n, of in calibration.tensors.items()
        },
        channels={
            n: wider.channels.get(n, of) if n in same else of
            for n, of in calibration.channels.items()
        },
    )


def _find_sources(
    plain: Graph, candidate: PreparedModel, measured: MeasuredTensors
) -> dict[str, Source]:
    """The measured tensor that each tensor of the candidate is, and the factors of its channels."""
    if candidate.graph is plain:
        return {name: (name, None) for name in measured.folds[0]}
    found = group_channels(plain, boundaries=candidate.boundaries)
    by_group = to_group_factors(found, candidate.channel_factors)
    factors = {name: by_group[groups] for name, groups in found.groups.items()}
    sources: dict[str, Source] = {
        name: (name, factors.get(name))
        for name in measured.folds[0]
        if name not in candidate.boundaries
    }
    for node in find_boundary_scale_nodes(candidate.graph, candidate.boundaries):
        before, after = node.inputs[0], node.outputs[0]
        assert before is not None
        tensor = next(get_name(v) for v in (before, after) if v.name in candidate.boundaries)
        writer = before.producer()
        is_scaled = writer is not None and writer.name in candidate.boundaries[tensor]
        if tensor in measured.folds[0]:
            scaled, unscaled = (before, after) if is_scaled else (after, before)
            sources[get_name(scaled)] = tensor, factors[tensor]
            sources[get_name(unscaled)] = tensor, None
    return sources
