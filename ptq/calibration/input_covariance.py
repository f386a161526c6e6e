"""Input covariances of the layers with weights, collected in a second pass over calibration samples.

Once ranges are set, inputs are 8-bit codes and their sums are exact integers; they contain the rounding of the
input itself. The covariances of held-out samples are kept separately and validate the weight rounding.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ptq.calibration.covariance_job import (
    BATCH,
    CovarianceJob,
    InputSums,
    count_covariance_bytes,
    list_layers,
)
from ptq.calibration.rounding_samples import choose_samples
from ptq.core.memory import release_memory
from ptq.core.plan import Plan
from ptq.core.run_options import RunOptions, SizedIterable, untrack_items
from ptq.core.stages import ROUNDING
from ptq.data import Sample, Samples
from ptq.data.workers.sample_map import SampleMap
from ptq.model.graph import Graph
from ptq.model.node import get_input_name, get_node_name
from ptq.observers.input_statistics import InputStatistics, MeanShift
from ptq.observers.kept_inputs import KeptInputs
from ptq.solver.quantizer import CalibratedModel
from ptq.solver.rounding.gptq import GptqRounder


def collect_covariances(
    graph: Graph,
    plan: Plan,
    samples: SizedIterable[Sample],
    held_out: Collection[str],
    count: int,
    *,
    keep: KeptInputs | None,
    run: RunOptions,
) -> InputStatistics:
    """Run the model on samples and collect the covariances of the inputs of nodes with weights.

    Args:
        graph: The prepared graph.
        plan: Its plan, which holds the quantization parameters of the inputs.
        samples: The samples to run; a few hundred are enough.
        held_out: The names of the held-out samples among them.
        count: About how many samples there are; the more, the fewer rows of each are used.
        keep: Gets the inputs of the layers that it asks for.
        run: How the job runs.

    Raises:
        DataError: The model fails on a sample; the text names it.
    """
    shared = list_layers(graph, plan)
    if not shared:
        return InputStatistics()
    keep = KeptInputs() if keep is None else keep
    job = CovarianceJob(graph, plan, frozenset(held_out), count, keep.names, run.for_job())
    found: InputSums | None = None
    moved = count_covariance_bytes(shared)
    for part in SampleMap(job, run, runs=1, moved_bytes=moved).map(samples, least=BATCH, most=None):
        found = part if found is None else found.add(part)
    items = untrack_items(samples)
    if run.pool is not None and isinstance(items, Samples) and items.skipped:
        # the numbers of the samples were those with bad ones
        return collect_covariances(
            graph, plan, samples, held_out, count, keep=keep, run=replace(run, pool=None)
        )
    assert found is not None
    keep.merge(found.kept)
    release_memory()
    found.add_up()
    by_group = list(zip(shared, found.blocks, strict=True))
    return InputStatistics(
        {get_node_name(layer.node): blocks for uses, blocks in by_group for layer in uses},
        {
            name: MeanShift(plan.tensors[get_input_name(layer.node)], *found.shifts[name][0])
            for uses in shared
            for layer in uses
            for name in [get_node_name(layer.node)]
        },
    )


def collect_input_covariance(
    model: CalibratedModel,
    plan: Plan,
    samples: Samples,
    run: RunOptions,
    *,
    keep: Collection[str],
    validated_inputs: float,
) -> CalibratedModel:
    """The model with the input covariances for second-order rounding, collected on calibration samples.

    Args:
        model: The calibrated model.
        plan: Its plan.
        samples: Calibration samples.
        run: How the job runs.
        keep: The inputs of layers that error compensation needs on these samples.
        validated_inputs: The most inputs of a sum whose damping is chosen on held-out samples.

    Raises:
        DataError: The model fails on a sample; the text names it.
    """
    chosen, names = choose_samples(samples, model.calibration)
    kept = KeptInputs(keep)
    found = collect_covariances(
        model.prepared.graph, plan, run.track(chosen, ROUNDING), names, len(chosen),
        keep=kept, run=run,
    )  # fmt: skip
    return replace(model, rounder=GptqRounder(found, validated_inputs), kept_inputs=kept)
