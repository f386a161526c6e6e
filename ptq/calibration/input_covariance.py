"""Input covariances of the layers with weights, collected in a second pass over calibration samples.

Once ranges are set, inputs are 8-bit codes and their sums are exact integers; they contain the rounding of the
input itself. The covariances of held-out samples are kept separately and validate the weight rounding.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.calibration.collect import BatchBuffers
from ptq.calibration.rounding_samples import choose_samples
from ptq.core.memory import release_memory
from ptq.core.plan import Plan
from ptq.core.run_options import DEFAULT_RUN, RunOptions
from ptq.core.types import QuantParams
from ptq.data import Sample, Samples
from ptq.kernels.thread_pool import thread_count
from ptq.model.exposed_session import CollectedTensors, session_with_outputs
from ptq.model.graph import Graph
from ptq.model.node import Node, constant_of, name_of, operator_of
from ptq.model.shared_weights import weight_families
from ptq.observers.covariance import Covariance
from ptq.observers.input_statistics import CovarianceBlock, InputStatistics, MeanShift
from ptq.observers.kept_inputs import KeptInputs
from ptq.solver.quantizer import CalibratedModel
from ptq.solver.rounding.gptq import GptqRounder
from ptq.solver.rounding.weighted_sums import LinearOp

ROUNDED_OPS = ("Conv", "Gemm", "MatMul")

_ROWS_PER_INPUT = 2
"""Rows that are used for each input of a weighted sum."""
_MIN_ROWS = 512
"""Rows that are used for each node, if it has as many."""
_CHEAP_ROWS = 2048
"""Rows that are used for each node whose rows are short: they lower the noise of the covariance."""
_CHEAP_VALUES = 2**18
"""Values of all those rows of a node."""
_MEAN_VALUES = 64
"""Values of a channel of a sample that are used for the mean rounding error."""
_MAX_BLOCK = 1536
"""Inputs in one covariance block: 9 MB, and 38 MB while it is factored."""
_MIN_BLOCK = 64
_MEMORY_LIMIT = 128 * 2**20
"""Bytes of all covariances together."""
_BATCH = 2
"""Samples whose tensors are in memory together."""


def collect_covariances(
    graph: Graph,
    plan: Plan,
    samples: Iterable[Sample],
    held_out: Collection[str],
    count: int,
    *,
    keep: KeptInputs | None = None,
    run: RunOptions = DEFAULT_RUN,
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
    nodes = [node for node in graph.nodes if _is_roundable(node, plan)]
    layers = [layer for layer in map(LinearOp, nodes) if layer.taps <= _MAX_BLOCK]
    shared = _group_by_covariance(graph, layers, plan)
    longest = max_block_size([uses[0] for uses in shared])
    of_group = [(uses, _empty_blocks(uses[0], longest)) for uses in shared]
    statistics = InputStatistics(
        {_node_name(layer.node): blocks for uses, blocks in of_group for layer in uses},
        {
            _node_name(layer.node): MeanShift(
                plan.tensors[_input_name(layer.node)], np.zeros(layer.input_channels)
            )
            for layer in layers
        },
    )
    if not layers:
        return statistics
    keep = KeptInputs() if keep is None else keep
    _collect(graph, shared, statistics, samples, frozenset(held_out), count, keep, run)
    release_memory()
    for blocks in statistics.blocks.values():
        for block in blocks:
            block.training.flush()
            block.held_out.flush()
    return statistics


def _group_by_covariance(
    graph: Graph, layers: Sequence[LinearOp], plan: Plan
) -> list[list[LinearOp]]:
    """The layers in groups with one covariance each: those that share a weight and the scale of their inputs."""
    families = weight_families(graph)
    groups: dict[tuple[tuple[str, ...], QuantParams], list[LinearOp]] = {}
    for layer in layers:
        family = families.get(_node_name(layer.node), (_node_name(layer.node),))
        groups.setdefault((family, plan.tensors[_input_name(layer.node)]), []).append(layer)
    return list(groups.values())


def _collect(
    graph: Graph,
    shared: Sequence[Sequence[LinearOp]],
    statistics: InputStatistics,
    samples: Iterable[Sample],
    held_out: Collection[str],
    count: int,
    keep: KeptInputs,
    run: RunOptions,
) -> None:
    """Run the model on samples and add the inputs of the layers to their blocks.

    A group of layers with one covariance is one task, because two threads may not add to the same sums.
    """
    names = list(dict.fromkeys(_input_name(layer.node) for uses in shared for layer in uses))
    families = weight_families(graph)
    uses_of = {name: len(family) for name, family in families.items()}
    buffers = BatchBuffers(
        session_with_outputs(graph, CollectedTensors(names), threads=run.threads), names, _BATCH
    )
    release_memory()  # loading took memory that the tensors need now
    remaining, number = iter(samples), 0
    with ThreadPoolExecutor(thread_count()) as pool:
        while group := list(islice(remaining, buffers.batch)):
            of_group = np.array([sample.name in held_out for sample in group])
            inputs = buffers.run(group)
            update = _CovarianceUpdate(inputs, statistics, of_group, number, max(count, 1), uses_of)
            list(pool.map(update, shared))
            keep.add([sample.name for sample in group], inputs)
            number += len(group)


@dataclass(frozen=True, eq=False)
class _CovarianceUpdate:
    """Adds a batch of samples to the covariance of some layers.

    Attributes:
        batch_inputs: The tensors that layers read, by name.
        statistics: The statistics to add to.
        held_out: Whether each sample of the batch is held out.
        first_sample: The number of the first sample of the batch.
        samples: About how many samples there are in all.
        uses: By node, how many nodes share its weight, if several do. Each gives its part of the rows.
    """

    batch_inputs: Mapping[str, NDArray[Any] | Sequence[NDArray[Any]]]
    statistics: InputStatistics
    held_out: NDArray[np.bool_]
    first_sample: int
    samples: int
    uses: Mapping[str, int]

    def __call__(self, layers: Sequence[LinearOp]) -> None:
        for offset, layer in enumerate(layers):
            self._add_inputs(layer, offset)

    def _add_inputs(self, layer: LinearOp, offset: int) -> None:
        """Add the inputs of one layer; the offset makes layers with one covariance give different rows."""
        blocks, shift = (
            self.statistics.blocks[_node_name(layer.node)],
            self.statistics.mean_shifts[_node_name(layer.node)],
        )
        uses = self.uses.get(_node_name(layer.node), 1)
        quota = rows_per_sample(layer, self.samples * uses)
        arrays = self.batch_inputs[_input_name(layer.node)]
        same_shape = isinstance(arrays, np.ndarray) or len({a.shape for a in arrays}) == 1
        stacks = [np.asarray(arrays)] if same_shape else [array[None] for array in arrays]
        first = 0
        for stack in stacks:
            if stack.size:
                number = self.first_sample + first + offset
                sums, count = layer.rounding_error_sums(stack, shift.params, number, _MEAN_VALUES)
                shift.sums += sums
                shift.count += count
                rows = layer.sample_rows(stack, shift.params, number, quota)
                of_stack = self.held_out[first : first + len(stack)]
                held_out = np.repeat(of_stack, rows.shape[1] // len(stack))
                for block in blocks:
                    for covariance, chosen in (
                        (block.training, ~held_out),
                        (block.held_out, held_out),
                    ):
                        if chosen.any():
                            covariance.update(rows[:, chosen, block.inputs])
            first += len(stack)


def rows_per_sample(layer: LinearOp, samples: int) -> int:
    """How many rows of each sample are used, if there are as many."""
    cheap = min(_CHEAP_VALUES // (layer.groups * layer.length), _CHEAP_ROWS)
    return -(-max(_ROWS_PER_INPUT * layer.length, _MIN_ROWS, cheap) // samples)


def _is_roundable(node: Node, plan: Plan) -> bool:
    if operator_of(node) not in ROUNDED_OPS or (_node_name(node), 1) not in plan.operands:
        return False
    weight = constant_of(node.inputs[1])
    batched = operator_of(node) == "MatMul" and weight is not None and weight.ndim != 2
    return weight is not None and not batched and _input_name(node) in plan.tensors


def max_block_size(layers: Sequence[LinearOp]) -> int:
    """How many inputs a covariance block may have so that all covariances fit the memory limit."""
    longest = _MAX_BLOCK
    while longest > _MIN_BLOCK:
        if sum(_covariance_bytes(layer, longest) for layer in layers) <= _MEMORY_LIMIT:
            break
        longest = max(longest // 2, _MIN_BLOCK)
    return longest


def _covariance_bytes(layer: LinearOp, longest: int) -> int:
    blocks = channel_blocks(layer, longest)
    return sum(2 * layer.groups * 4 * (block.stop - block.start) ** 2 for block in blocks)


def channel_blocks(layer: LinearOp, longest: int) -> Iterator[slice]:
    """Slices of a weighted sum's inputs: blocks of whole channels, at most ``longest`` inputs or one channel."""
    channels = layer.length // layer.taps
    count = -(-channels // max(1, longest // layer.taps))
    edges = [channels * i // count * layer.taps for i in range(count + 1)]
    yield from (slice(a, b) for a, b in itertools.pairwise(edges))


def _empty_blocks(layer: LinearOp, longest: int) -> list[CovarianceBlock]:
    shapes = [
        (inputs, (layer.groups, inputs.stop - inputs.start))
        for inputs in channel_blocks(layer, longest)
    ]
    return [
        CovarianceBlock(inputs, Covariance(*shape), Covariance(*shape)) for inputs, shape in shapes
    ]


def _input_name(node: Node) -> str:
    assert node.inputs[0] is not None
    return name_of(node.inputs[0])


def _node_name(node: Node) -> str:
    assert node.name is not None
    return node.name


def collect_input_covariance(
    model: CalibratedModel,
    plan: Plan,
    samples: Samples,
    run: RunOptions = DEFAULT_RUN,
    *,
    keep: Collection[str] = (),
) -> CalibratedModel:
    """The model with the input covariances for second-order rounding, collected on calibration samples.

    Args:
        model: The calibrated model.
        plan: Its plan.
        samples: Calibration samples.
        run: How the job runs.
        keep: The inputs of layers that error compensation needs on these samples.

    Raises:
        DataError: The model fails on a sample; the text names it.
    """
    chosen, names = choose_samples(samples, model.calibration)
    kept = KeptInputs(keep)
    found = collect_covariances(
        model.prepared.graph, plan, run.track(chosen, "rounding"), names, len(chosen),
        keep=kept, run=run,
    )  # fmt: skip
    return replace(model, rounder=GptqRounder(found), kept_inputs=kept)
