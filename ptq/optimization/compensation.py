"""Which layers make up for what rounding before them did, and by which weights?

The last layers before the outputs, and fully connected ones at a few depths, from the first to the last: what comes
out of a quantized transformer differs from float in ways that the next product can tell and take back. Convolutions
amid a network win nothing that the last layer does not (measured). Each step runs the float model and the quantized
one, as the steps before have made it, over calibration samples; the weights that come nearest to float's sums are
taken where held-out samples gain, and are then rounded like others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.calibration.collect import BatchBuffers
from ptq.calibration.input_covariance import (
    HOLDOUT_EVERY,
    channel_blocks,
    max_block_size,
    rows_per_sample,
)
from ptq.core.plan import Plan
from ptq.core.run_options import DEFAULT_RUN, RunOptions
from ptq.core.wording import plural
from ptq.data import Sample, Samples
from ptq.kernels.thread_pool import thread_count as cores
from ptq.model.exposed_session import CollectedTensors, session_with_outputs
from ptq.model.graph import Graph
from ptq.model.node import Node, consumers_of, name_of, operator_of
from ptq.observers.covariance import Covariance
from ptq.observers.input_statistics import CovarianceBlock, InputStatistics, MeanShift
from ptq.optimization.compensation_fit import (
    MIN_HELD_OUT,
    CompensationFit,
    InputPairs,
    fit_compensation,
)
from ptq.rewrite.emit.bias_correction import is_correctable
from ptq.solver.quantizer import QuantizedModel, apply_plan
from ptq.solver.rounding.weighted_sums import LinearOp

SAMPLES = 256
_INNER_SAMPLES = 128  # samples for layers after which others make up too
_MAX_DEPTHS = 12  # at which fully connected layers make up
_FULLY_CONNECTED = ("Gemm", "MatMul")


def compensate_rounding(
    made: QuantizedModel,
    samples: Samples | None,
    *,
    run: RunOptions = DEFAULT_RUN,
) -> QuantizedModel:
    """The quantization with weights that make up for the rounding before them, where that gains.

    Args:
        made: A quantization; where its weights were not rounded by second order it stays as it is.
        samples: For calibration; with few or none it stays as it is.
        run: How the job runs.

    Raises:
        DataError: The model fails on a sample; the text names it.
    """
    graph, plan = made.calibrated_model.prepared.graph, made.plan
    if (
        samples is None
        or len(samples) < MIN_HELD_OUT * HOLDOUT_EVERY
        or made.check_failure is not None
    ):
        return made
    ground, recipe, gains = made.calibrated_model, replace(made.recipe, form="qdq"), list[float]()
    able = [n for n in graph.nodes if n.name in made.calibrated_model.rounder.node_names]
    able = [n for n in able if (n.name, 1) in plan.operands and (n.name, 0) not in plan.edges]
    steps = _layers_by_depth(graph, able)
    for place, nodes in enumerate(steps, 1):
        some = samples.spread(SAMPLES if place == len(steps) else _INNER_SAMPLES)
        before = apply_plan(ground, recipe, plan).quantized_graph
        compared = [_compare_inputs(node, before, plan) for node in nodes]
        _run_both(
            graph,
            before,
            compared,
            run.track(some, "compensating"),
            len(some),
            run,
        )
        fits = {c.name: (c, fit) for c in compared if (fit := c.fit(recipe.correct_bias))}
        seen = InputStatistics(
            {name: c.blocks for name, (c, _) in fits.items()},
            {name: c.mean_shift for name, (c, _) in fits.items()},
            {name: fit.weights for name, (_, fit) in fits.items()},
        )
        ground = replace(ground, rounder=ground.rounder.updated_with(seen))
        gains += [fit.gain_db for _, fit in fits.values()]
    if not gains:
        return made
    after = apply_plan(ground, made.recipe, plan)
    made.calibrated_model.rounder.release()
    note = (
        f"{plural(len(gains), 'layer')} made up for earlier rounding: on held-out samples the median error "
        f"of the sums is {sorted(gains)[len(gains) // 2]:.1f} dB less"
    )
    return replace(after, changes=(*after.changes, note))


def _layers_by_depth(graph: Graph, able: Sequence[Node]) -> list[list[Node]]:
    """Which of the nodes make up, those at the same depth together, from the first to the last."""
    names = {node.name for node in able}
    depth: dict[str | None, int] = {}
    for node in graph.nodes:
        makers = [v.producer() for v in node.inputs if v is not None]
        above = (depth.get(m.name, 0) + (m.name in names) for m in makers if m is not None)
        depth[node.name] = max(above, default=0)
    leads: dict[str | None, bool] = {}
    for node in reversed(list(graph.nodes)):
        readers = [reader for value in node.outputs for reader in consumers_of(value)]
        leads[node.name] = any(r.name in names or leads.get(r.name, False) for r in readers)
    connected = sorted({depth[n.name] for n in able if operator_of(n) in _FULLY_CONNECTED})
    spread = np.linspace(0, len(connected) - 1, min(_MAX_DEPTHS, len(connected))).round()
    chosen = {connected[int(i)] for i in spread}
    steps: dict[int, list[Node]] = {}
    for node in able:
        at = depth[node.name]
        if at == 0:
            continue  # no rounded weights are before it
        if not leads[node.name] or (at in chosen and operator_of(node) in _FULLY_CONNECTED):
            steps.setdefault(at, []).append(node)
    return [steps[at] for at in sorted(steps)]


@dataclass(frozen=True, eq=False)
class _InputComparison:
    """A node's input in the float model and in the quantized one.

    Attributes:
        sums: What the node sums.
        real: The input's name in the float model.
        rounded: The same in the quantized one.
        pairs: How both vary together.
        parts: How the rounded one varies.
        added: What rounding has added to it.
    """

    linear_op: LinearOp
    float_name: str
    quantized_name: str
    pairs: InputPairs
    blocks: Sequence[CovarianceBlock]
    mean_shift: MeanShift

    @property
    def name(self) -> str:
        """The node's."""
        return self.linear_op.node.name or ""

    def add_sample(
        self, real: NDArray[Any], rounded: NDArray[Any], number: int, samples: int
    ) -> None:
        """Add a sample, of so many; not one on which the input is empty, or rounding changes its shape."""
        if not real.size or real.shape != rounded.shape:
            return
        u, v = (
            self.linear_op.sample_rows(
                array, self.mean_shift.params, number, rows_per_sample(self.linear_op, samples)
            )
            for array in (real, rounded)
        )
        held = number % HOLDOUT_EVERY == 1
        if held:
            self.pairs.held_out.append((u, v))
        else:
            self.pairs.add_training(u, v)
        for part in self.blocks:
            (part.held_out if held else part.training).update(v[:, :, part.inputs])
        self.mean_shift.sums += self.linear_op.channel_sums(rounded) - self.linear_op.channel_sums(
            real
        )
        self.mean_shift.count += real.size // self.linear_op.input_channels

    def fit(self, correct_bias: bool) -> CompensationFit | None:
        """The weights that make up for the rounding; None where they gain too little."""
        centred = correct_bias and is_correctable(self.linear_op.node)
        return fit_compensation(
            self.linear_op.weight_columns().astype(np.float64), self.pairs, centred=centred
        )


def _compare_inputs(node: Node, quantized: Graph, plan: Plan) -> _InputComparison:
    sums = LinearOp(node)
    [twin] = [n for n in quantized.nodes if n.name == node.name]
    real, rounded = node.inputs[0], twin.inputs[0]
    assert real is not None
    assert rounded is not None
    inputs = list(channel_blocks(sums, max_block_size([sums]) // 2))
    sizes = [(sums.groups, some.stop - some.start) for some in inputs]
    pairs = InputPairs(inputs, [Covariance(groups, 2 * size) for groups, size in sizes], [])
    parts = [
        CovarianceBlock(some, Covariance(*size), Covariance(*size))
        for some, size in zip(inputs, sizes, strict=True)
    ]
    added = MeanShift(plan.tensors[name_of(real)], np.zeros(sums.input_channels))
    return _InputComparison(sums, name_of(real), name_of(rounded), pairs, parts, added)


def _run_both(
    graph: Graph,
    quantized: Graph,
    compared: Sequence[_InputComparison],
    samples: Iterable[Sample],
    count: int,
    run: RunOptions,
) -> None:
    """Run both models on so many samples and add what the nodes read."""
    real = list(dict.fromkeys(c.float_name for c in compared))
    rounded = list(dict.fromkeys(c.quantized_name for c in compared))
    of_float = BatchBuffers(
        session_with_outputs(graph, CollectedTensors(real), threads=run.threads), real, 1
    )
    of_rounded = BatchBuffers(
        session_with_outputs(quantized, CollectedTensors(rounded), threads=run.threads), rounded, 1
    )
    with ThreadPoolExecutor(cores()) as pool:
        for number, sample in enumerate(samples):
            before, after = of_float.run([sample]), of_rounded.run([sample])
            seen = [
                pool.submit(
                    one.add_sample,
                    np.asarray(before[one.float_name]),
                    np.asarray(after[one.quantized_name]),
                    number,
                    count,
                )
                for one in compared
            ]
            for future in seen:
                future.result()
