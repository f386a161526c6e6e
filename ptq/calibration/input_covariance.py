"""How do the inputs of the nodes with weights vary together? Seen in a second pass over calibration samples.

Once ranges are set, inputs are 8-bit codes and their sums exact integers; they contain the input's own rounding.
What is chosen by them is judged on every fourth sample, which is counted apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.calibration.collect import BatchBuffers
from ptq.core.memory import release_memory
from ptq.core.plan import Plan
from ptq.core.run_options import DEFAULT_RUN, RunOptions
from ptq.data import Sample, Samples
from ptq.kernels.thread_pool import thread_count as cores
from ptq.model.exposed_session import CollectedTensors, session_with_outputs
from ptq.model.graph import Graph
from ptq.model.node import Node, constant_of, name_of, operator_of
from ptq.observers.covariance import Covariance
from ptq.observers.input_statistics import CovarianceBlock, InputStatistics, MeanShift
from ptq.solver.quantizer import CalibratedModel
from ptq.solver.rounding.gptq import GptqRounder
from ptq.solver.rounding.weighted_sums import LinearOp

ROUNDED_OPS = ("Conv", "Gemm", "MatMul")

SAMPLES = 256  # of a model; more change the covariances little
_ROWS_PER_INPUT = 2  # rows for each input of a sum
_MIN_ROWS = 1024  # rows of a node, where it has as many
HOLDOUT_EVERY = 4  # every fourth sample is judged on
_MAX_BLOCK = 1536  # inputs whose covariance is taken as a whole: 9 MB, and 38 while it is factored
_MIN_BLOCK = 64
_MEMORY_LIMIT = 128 * 2**20  # bytes of all covariances together
_BATCH = 1


def collect_covariances(
    graph: Graph,
    plan: Plan,
    samples: Iterable[Sample],
    count: int,
    *,
    run: RunOptions = DEFAULT_RUN,
) -> InputStatistics:
    """Run the model over samples and see how the inputs of weighted nodes vary.

    Args:
        graph: The prepared graph.
        plan: Its plan, which says what the inputs are quantized with.
        samples: Some hundred suffice.
        count: How many there are about; the more, the fewer rows of each are looked at.
        run: How the job runs.

    Raises:
        DataError: The model fails on a sample; the text names it.
    """
    nodes = [node for node in graph.nodes if _is_roundable(node, plan)]
    sums = [LinearOp(node) for node in nodes]
    sums = [s for s in sums if s.taps <= _MAX_BLOCK]
    longest = max_block_size(sums)
    seen = InputStatistics(
        {_node_name(s.node): _empty_blocks(s, longest) for s in sums},
        {
            _node_name(s.node): MeanShift(
                plan.tensors[_input_name(s.node)], np.zeros(s.input_channels)
            )
            for s in sums
        },
    )
    if not sums:
        return seen
    _collect(graph, plan, sums, seen, samples, count, run)
    release_memory()
    for some in seen.blocks.values():
        for part in some:
            part.training.flush()
            part.held_out.flush()
    return seen


def _collect(
    graph: Graph,
    plan: Plan,
    sums: Sequence[LinearOp],
    seen: InputStatistics,
    samples: Iterable[Sample],
    count: int,
    run: RunOptions,
) -> None:
    """Run the model and add what its nodes read to their parts."""
    names = list(dict.fromkeys(_input_name(s.node) for s in sums))
    memory = BatchBuffers(
        session_with_outputs(graph, CollectedTensors(names), threads=run.threads), names, _BATCH
    )
    release_memory()  # what loading took, before the tensors come
    remaining, number = iter(samples), 0
    with ThreadPoolExecutor(cores()) as pool:
        while group := list(islice(remaining, memory.batch)):
            see = _CovarianceUpdate(memory.run(group), seen, number, max(count, 1))
            list(pool.map(see, sums))
            number += len(group)


@dataclass(frozen=True, eq=False)
class _CovarianceUpdate:
    """Adds the rows of some samples to a node's covariances."""

    batch_inputs: Mapping[str, NDArray[Any] | Sequence[NDArray[Any]]]
    statistics: InputStatistics
    first_sample: int
    samples: int

    def __call__(self, sums: LinearOp) -> None:
        parts, added = (
            self.statistics.blocks[_node_name(sums.node)],
            self.statistics.mean_shifts[_node_name(sums.node)],
        )
        quota = rows_per_sample(sums, self.samples)
        held = self.batch_inputs[_input_name(sums.node)]
        alike = isinstance(held, np.ndarray) or len({array.shape for array in held}) == 1
        stacks = [np.asarray(held)] if alike else [array[None] for array in held]
        first = self.first_sample
        for stack in stacks:
            if stack.size:
                added.sums += sums.rounding_error_sums(stack, added.params)
                added.count += stack.size // sums.input_channels
                seen = sums.sample_rows(stack, added.params, first, quota)
                apart = np.arange(first, first + len(stack)) % HOLDOUT_EVERY == 1
                judged = np.repeat(apart, seen.shape[1] // len(stack))
                for part in parts:
                    for covariance, some in ((part.training, ~judged), (part.held_out, judged)):
                        if some.any():
                            covariance.update(seen[:, some, part.inputs])
            first += len(stack)


def rows_per_sample(sums: LinearOp, samples: int) -> int:
    """Rows of each sample that are looked at, where there are so many."""
    return -(-max(_ROWS_PER_INPUT * sums.length, _MIN_ROWS) // samples)


def _is_roundable(node: Node, plan: Plan) -> bool:
    if operator_of(node) not in ROUNDED_OPS or (_node_name(node), 1) not in plan.operands:
        return False
    weight = constant_of(node.inputs[1])
    batched = operator_of(node) == "MatMul" and weight is not None and weight.ndim != 2
    return weight is not None and not batched and _input_name(node) in plan.tensors


def max_block_size(sums: Sequence[LinearOp]) -> int:
    """Inputs that a covariance may have for all of them to fit the memory."""
    longest = _MAX_BLOCK
    while longest > _MIN_BLOCK:
        if sum(_covariance_bytes(s, longest) for s in sums) <= _MEMORY_LIMIT:
            break
        longest = max(longest // 2, _MIN_BLOCK)
    return longest


def _covariance_bytes(sums: LinearOp, longest: int) -> int:
    return sum(2 * sums.groups * 4 * (c.stop - c.start) ** 2 for c in channel_blocks(sums, longest))


def channel_blocks(sums: LinearOp, longest: int) -> Iterator[slice]:
    """The inputs of a sum cut into whole channels, so many inputs at most or one channel."""
    channels = sums.length // sums.taps
    count = -(-channels // max(1, longest // sums.taps))
    edges = [channels * i // count * sums.taps for i in range(count + 1)]
    yield from (slice(a, b) for a, b in itertools.pairwise(edges))


def _empty_blocks(sums: LinearOp, longest: int) -> list[CovarianceBlock]:
    shapes = [(cut, (sums.groups, cut.stop - cut.start)) for cut in channel_blocks(sums, longest)]
    return [CovarianceBlock(cut, Covariance(*shape), Covariance(*shape)) for cut, shape in shapes]


def _input_name(node: Node) -> str:
    assert node.inputs[0] is not None
    return name_of(node.inputs[0])


def _node_name(node: Node) -> str:
    assert node.name is not None
    return node.name


def collect_input_covariance(
    ground: CalibratedModel,
    plan: Plan,
    samples: Samples,
    run: RunOptions = DEFAULT_RUN,
) -> CalibratedModel:
    """The ground with what rounding by second order needs to know, gathered on calibration samples.

    Raises:
        DataError: The model fails on a sample; the text names it.
    """
    some = samples.spread(SAMPLES)
    read = run.track(some, "rounding")
    found = collect_covariances(ground.prepared.graph, plan, read, len(some), run=run)
    return replace(ground, rounder=GptqRounder(found))
