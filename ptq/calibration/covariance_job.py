"""Covariances of the inputs of layers, over parts of the samples, and how they are divided into blocks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.calibration.collect import BatchBuffers
from ptq.core.memory import release_memory
from ptq.core.opspec import WEIGHT_INPUT
from ptq.core.plan import Plan
from ptq.core.run_options import RunOptions
from ptq.core.types import QuantParams
from ptq.data.workers.sample_parts import Part
from ptq.kernels.thread_pool import map_in_parallel
from ptq.model.graph import Graph
from ptq.model.node import Node, get_constant_shape, get_input_name, get_node_name, get_operator
from ptq.model.session.exposed_session import CollectedTensors, open_session_with_outputs
from ptq.model.weights.shared_weights import find_weight_families
from ptq.observers.covariance import Covariance
from ptq.observers.input_statistics import CovarianceBlock
from ptq.observers.kept_inputs import KeptInputs
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
BATCH = 2
"""Samples whose tensors are in memory together."""


def list_layers(graph: Graph, plan: Plan) -> list[list[LinearOp]]:
    """The layers whose inputs are observed, in groups with one covariance each."""
    nodes = [node for node in graph.nodes if _is_roundable(node, plan)]
    layers = [layer for layer in map(LinearOp, nodes) if layer.taps <= _MAX_BLOCK]
    return _group_by_covariance(graph, layers, plan)


def _group_by_covariance(
    graph: Graph, layers: Sequence[LinearOp], plan: Plan
) -> list[list[LinearOp]]:
    """The layers in groups with one covariance each: those that share a weight and the scale of their inputs."""
    families = find_weight_families(graph)
    groups: dict[tuple[tuple[str, ...], QuantParams], list[LinearOp]] = {}
    for layer in layers:
        family = families.get(get_node_name(layer.node), (get_node_name(layer.node),))
        groups.setdefault((family, plan.tensors[get_input_name(layer.node)]), []).append(layer)
    return list(groups.values())


@dataclass(eq=False)
class InputSums:
    """Sums over a part of the samples.

    Attributes:
        blocks: The covariance blocks of each group of layers.
        shifts: By node, the sums of rounding errors of each batch in order, with the number of values. Floats are
            added up in one order, whatever the parts.
        kept: The inputs that are asked for.
    """

    blocks: list[list[CovarianceBlock]]
    shifts: dict[str, list[tuple[NDArray[np.float64], int]]]
    kept: KeptInputs

    def add(self, other: InputSums) -> InputSums:
        """This with the next part."""
        for name, sums in other.shifts.items():
            self.shifts[name] += sums
        self.add_up()
        self.kept.merge(other.kept)
        pairs = zip(self.blocks, other.blocks, strict=True)
        blocks = [[a.merge(b) for a, b in zip(*both, strict=True)] for both in pairs]
        return InputSums(blocks, self.shifts, self.kept)

    def add_up(self) -> None:
        """Add up the sums of the batches so far."""
        for sums in self.shifts.values():
            total, count = sums[0]
            for more, number in sums[1:]:
                total = total + more
                count += number
            sums[:] = [(total, count)]


@dataclass(frozen=True, eq=False)
class CovarianceJob:
    """Collects covariances. A group of layers with one covariance is one task: two threads may not add to it.

    Attributes:
        graph: The prepared graph.
        plan: Its plan.
        held_out: The names of the held-out samples.
        samples: About how many samples there are in all.
        keep: The inputs to keep.
        run: How the job runs.
    """

    graph: Graph
    plan: Plan
    held_out: frozenset[str]
    samples: int
    keep: Collection[str]
    run: RunOptions

    def open(self) -> Callable[[Part], InputSums]:
        """Load the model with the inputs of the layers among its outputs."""
        graph, shared = self.graph, list_layers(self.graph, self.plan)
        longest = choose_max_block_size([uses[0] for uses in shared])
        names = list(dict.fromkeys(get_input_name(layer.node) for uses in shared for layer in uses))
        families = find_weight_families(graph)
        uses_of = {name: len(family) for name, family in families.items()}
        session = open_session_with_outputs(
            graph, CollectedTensors(names), threads=self.run.threads
        )
        buffers = BatchBuffers(session, names, BATCH, at_once=self.run.memory is None)
        release_memory()  # loading took memory that the tensors need now

        def collect(part: Part) -> InputSums:
            found = InputSums(
                [_make_empty_blocks(uses[0], longest) for uses in shared],
                {
                    get_node_name(layer.node): []
                    if part.first
                    else [(np.zeros(layer.input_channels), 0)]
                    for uses in shared
                    for layer in uses
                },
                KeptInputs(self.keep),
            )
            remaining, number = iter(part.samples), part.first
            tasks = list(zip(shared, found.blocks, strict=True))
            tasks.sort(key=lambda task: -task[0][0].length)  # short ones last: no thread waits long
            while group := list(islice(remaining, buffers.batch)):
                of_group = np.array([sample.name in self.held_out for sample in group])
                inputs = buffers.run(group)
                update = _CovarianceUpdate(
                    inputs, self.plan, found, of_group, number, max(self.samples, 1), uses_of
                )
                map_in_parallel(update, tasks)
                found.kept.add([sample.name for sample in group], inputs)
                number += len(group)
                if not part.count:
                    found.add_up()
            map_in_parallel(_flush_blocks, found.blocks)
            return found

        return collect


def _flush_blocks(blocks: Sequence[CovarianceBlock]) -> None:
    for block in blocks:
        block.training.flush()
        block.held_out.flush()


@dataclass(frozen=True, eq=False)
class _CovarianceUpdate:
    """Adds a batch of samples to the covariance of some layers.

    Attributes:
        batch_inputs: The tensors that layers read, by name.
        plan: The plan.
        found: What to add to.
        held_out: Whether each sample of the batch is held out.
        first_sample: The number of the first sample of the batch.
        samples: About how many samples there are in all.
        uses: By node, how many nodes share its weight, if several do. Each gives its part of the rows.
    """

    batch_inputs: Mapping[str, NDArray[Any] | Sequence[NDArray[Any]]]
    plan: Plan
    found: InputSums
    held_out: NDArray[np.bool_]
    first_sample: int
    samples: int
    uses: Mapping[str, int]

    def __call__(self, group: tuple[Sequence[LinearOp], Sequence[CovarianceBlock]]) -> None:
        layers, blocks = group
        for offset, layer in enumerate(layers):
            self._add_inputs(layer, offset, blocks)

    def _add_inputs(self, layer: LinearOp, offset: int, blocks: Sequence[CovarianceBlock]) -> None:
        """Add the inputs of one layer; the offset makes layers with one covariance give different rows."""
        params = self.plan.tensors[get_input_name(layer.node)]
        shifts = self.found.shifts[get_node_name(layer.node)]
        uses = self.uses.get(get_node_name(layer.node), 1)
        quota = count_rows_per_sample(layer, self.samples * uses)
        arrays = self.batch_inputs[get_input_name(layer.node)]
        same_shape = isinstance(arrays, np.ndarray) or len({a.shape for a in arrays}) == 1
        stacks = [np.asarray(arrays)] if same_shape else [array[None] for array in arrays]
        first = 0
        for stack in stacks:
            if stack.size:
                number = self.first_sample + first + offset
                shifts.append(layer.rounding_error_sums(stack, params, number, _MEAN_VALUES))
                of_stack = self.held_out[first : first + len(stack)]
                found = layer.sample_rows(stack, params, number, quota)
                for held_out, rows in zip(of_stack, found, strict=True):
                    for block in blocks:
                        covariance = block.held_out if held_out else block.training
                        covariance.update(rows[:, block.inputs])
            first += len(stack)


def count_rows_per_sample(layer: LinearOp, samples: int) -> int:
    """How many rows of each sample are used, if there are as many."""
    cheap = min(_CHEAP_VALUES // (layer.groups * layer.length), _CHEAP_ROWS)
    return -(-max(_ROWS_PER_INPUT * layer.length, _MIN_ROWS, cheap) // samples)


def _is_roundable(node: Node, plan: Plan) -> bool:
    if (
        get_operator(node) not in ROUNDED_OPS
        or plan.find_weight_qparams(get_node_name(node)) is None
    ):
        return False
    shape = get_constant_shape(node.inputs[WEIGHT_INPUT])
    batched = get_operator(node) == "MatMul" and shape is not None and len(shape) != 2
    return shape is not None and not batched and get_input_name(node) in plan.tensors


def choose_max_block_size(layers: Sequence[LinearOp]) -> int:
    """How many inputs a covariance block may have so that all covariances fit the memory limit."""
    longest = _MAX_BLOCK
    while longest > _MIN_BLOCK:
        if sum(_count_layer_bytes(layer, longest) for layer in layers) <= _MEMORY_LIMIT:
            break
        longest = max(longest // 2, _MIN_BLOCK)
    return longest


def count_covariance_bytes(groups: Sequence[Sequence[LinearOp]]) -> int:
    """Bytes of the covariances of all groups of layers."""
    layers = [uses[0] for uses in groups]
    longest = choose_max_block_size(layers)
    return sum(_count_layer_bytes(layer, longest) for layer in layers)


def _count_layer_bytes(layer: LinearOp, longest: int) -> int:
    blocks = list_channel_blocks(layer, longest)
    return sum(2 * layer.groups * 4 * (block.stop - block.start) ** 2 for block in blocks)


def list_channel_blocks(layer: LinearOp, longest: int) -> Iterator[slice]:
    """Slices of a weighted sum's inputs: blocks of whole channels, at most ``longest`` inputs or one channel."""
    channels = layer.length // layer.taps
    count = -(-channels // max(1, longest // layer.taps))
    edges = [channels * i // count * layer.taps for i in range(count + 1)]
    yield from (slice(a, b) for a, b in itertools.pairwise(edges))


def _make_empty_blocks(layer: LinearOp, longest: int) -> list[CovarianceBlock]:
    shapes = [
        (inputs, (layer.groups, inputs.stop - inputs.start))
        for inputs in list_channel_blocks(layer, longest)
    ]
    return [
        CovarianceBlock(inputs, Covariance(*shape), Covariance(*shape)) for inputs, shape in shapes
    ]
