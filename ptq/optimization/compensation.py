"""Error compensation: re-fits layers to their quantized inputs, from the first layer to the last.

These layers are re-fitted: the last layers before the outputs, and fully connected layers at a few depths. The next
matrix product can predict and remove part of the error of a quantized transformer block. Convolutions in the middle
of a network gain nothing that the last layer does not gain (measured). Each round runs the next stage of the float
model and of the quantized model of the earlier rounds on calibration samples. Weights are re-fitted where held-out
samples gain, and are then rounded like all weights.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import methodcaller
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.calibration.covariance_job import (
    choose_max_block_size,
    count_rows_per_sample,
    list_channel_blocks,
)
from ptq.calibration.rounding_samples import choose_samples
from ptq.core.plan import Plan
from ptq.core.run_options import RunOptions
from ptq.core.stages import COMPENSATING
from ptq.core.wording import plural
from ptq.data import Samples
from ptq.data.holdout import VALIDATION_SHARE
from ptq.kernels.thread_pool import map_in_parallel
from ptq.model.graph import Graph
from ptq.model.node import Node, get_name, get_node_name, get_operator, list_consumers
from ptq.model.weights.shared_weights import find_weight_families
from ptq.observers.covariance import Covariance
from ptq.observers.input_statistics import CovarianceBlock, InputStatistics, MeanShift
from ptq.optimization.compensation_fit import (
    MIN_HELD_OUT,
    CompensationFit,
    InputPairs,
    fit_compensation,
)
from ptq.optimization.staged_run import StagedRun
from ptq.rewrite.emit.bias_correction import is_correctable
from ptq.solver.quantizer import QuantizedModel, apply_plan
from ptq.solver.rounding.weighted_sums import LinearOp

_MAX_DEPTHS = 12
"""Depths at which fully connected layers are re-fitted."""
_FULLY_CONNECTED = ("Gemm", "MatMul")


def compensate_rounding(
    quantized: QuantizedModel,
    samples: Samples | None,
    *,
    run: RunOptions,
) -> QuantizedModel:
    """The quantized model with layers re-fitted to their quantized inputs, where held-out samples gain.

    Args:
        quantized: A quantized model; it stays unchanged unless its weights are rounded by second order.
        samples: Calibration samples; the model stays unchanged with fewer than 32.
        run: How the job runs.

    Raises:
        DataError: The model fails on a sample; the text names it.
    """
    graph, plan = quantized.calibrated_model.prepared.graph, quantized.plan
    if (
        samples is None
        or len(samples) < MIN_HELD_OUT * VALIDATION_SHARE
        or quantized.check_failure is not None
        or quantized.instability
    ):
        return quantized
    model, recipe, gains = (
        quantized.calibrated_model,
        replace(quantized.recipe, form="qdq"),
        list[float](),
    )
    rounds = _group_layers_by_depth(graph, plan, model.rounder.node_names)
    chosen, held_out = choose_samples(samples, model.calibration)
    known = _list_inputs(itertools.chain.from_iterable(rounds))
    kept = model.kept_inputs if model.kept_inputs.has(known, chosen.names) else None
    runs = StagedRun(threads=run.threads), StagedRun(threads=run.threads)
    is_qdq = quantized.recipe.form == recipe.form
    as_qdq = quantized if is_qdq or not rounds else apply_plan(model, recipe, plan)
    for number, nodes in enumerate(rounds):
        before = as_qdq.quantized_graph
        compared = [_compare_inputs(node, before, plan) for node in nodes]
        later = _map_input_names([node for some in rounds[number + 1 :] for node in some], before)
        # the first stages of both runs share the samples
        feeds = itertools.tee(chosen) if number == 0 and kept is None else (chosen, chosen)
        real = (
            runs[0].run(graph, feeds[0], [c.float_name for c in compared], list(later))
            if kept is None
            else kept.read(chosen.names)
        )
        rounded = runs[1].run(
            before, feeds[1], [c.quantized_name for c in compared], list(later.values())
        )
        _add_samples(compared, real, rounded, held_out, len(chosen), run)
        fits = {c.name: (c, fit) for c in compared if (fit := c.fit(recipe.correct_bias))}
        statistics = InputStatistics(
            {name: c.blocks for name, (c, _) in fits.items()},
            {name: c.mean_shift for name, (c, _) in fits.items()},
            {name: fit.weights.astype(np.float32) for name, (_, fit) in fits.items()},
        )
        if fits:
            model = replace(model, rounder=model.rounder.updated_with(statistics))
            as_qdq = apply_plan(model, recipe, plan)
        gains += [fit.gain_db for _, fit in fits.values()]
    if not gains:
        return quantized
    after = as_qdq if is_qdq else apply_plan(model, quantized.recipe, plan)
    quantized.calibrated_model.release()
    note = (
        f"error compensation: {plural(len(gains), 'layer')} re-fitted to quantized inputs; "
        f"layer error {median(gains):.1f} dB lower (median, held-out)"
    )
    return replace(after, changes=(*after.changes, note))


def list_inputs_to_keep(graph: Graph, plan: Plan) -> set[str]:
    """The inputs in the float model of the layers that can be re-fitted."""
    names = [name for name, index in plan.operands if index == 1]
    return _list_inputs(itertools.chain.from_iterable(_group_layers_by_depth(graph, plan, names)))


def _list_inputs(layers: Iterable[Node]) -> set[str]:
    return {get_name(node.inputs[0]) for node in layers if node.inputs[0] is not None}


def _group_layers_by_depth(
    graph: Graph, plan: Plan, candidates: Collection[str]
) -> list[list[Node]]:
    """The nodes to re-fit, grouped by depth, from the first depth to the last.

    Args:
        graph: The prepared graph.
        plan: Its plan.
        candidates: The names of the nodes that may be re-fitted.
    """
    shared = find_weight_families(graph)  # a weight that fits one use would be wrong for the others
    able = [
        node
        for node in graph.nodes
        if node.name in candidates
        and node.name not in shared
        and plan.find_weight_qparams(get_node_name(node)) is not None
        and (node.name, 0) not in plan.edges
    ]
    names = {node.name for node in able}
    depth: dict[str | None, int] = {}
    for node in graph.nodes:
        producers = [v.producer() for v in node.inputs if v is not None]
        above = (depth.get(p.name, 0) + (p.name in names) for p in producers if p is not None)
        depth[node.name] = max(above, default=0)
    has_later: dict[str | None, bool] = {}
    for node in reversed(list(graph.nodes)):
        readers = [reader for value in node.outputs for reader in list_consumers(value)]
        has_later[node.name] = any(r.name in names or has_later.get(r.name, False) for r in readers)
    connected = sorted({depth[n.name] for n in able if get_operator(n) in _FULLY_CONNECTED})
    spread = np.linspace(0, len(connected) - 1, min(_MAX_DEPTHS, len(connected))).round()
    chosen = {connected[int(i)] for i in spread}
    rounds: dict[int, list[Node]] = {}
    for node in able:
        level = depth[node.name]
        if level == 0:
            continue  # no rounded weights come before it
        is_chosen = level in chosen and get_operator(node) in _FULLY_CONNECTED
        if not has_later[node.name] or is_chosen:
            rounds.setdefault(level, []).append(node)
    return [rounds[level] for level in sorted(rounds)]


@dataclass(frozen=True, eq=False)
class _InputComparison:
    """The input of a layer in the float model and in the quantized one.

    Attributes:
        linear_op: The layer.
        float_name: The name of the input in the float model.
        quantized_name: The name of the input in the quantized model.
        pairs: The joint second moments of both inputs.
        blocks: The covariances of the quantized input.
        mean_shift: The mean of what rounding adds to the input.
    """

    linear_op: LinearOp
    float_name: str
    quantized_name: str
    pairs: InputPairs
    blocks: Sequence[CovarianceBlock]
    mean_shift: MeanShift

    @property
    def name(self) -> str:
        """The name of the node."""
        return self.linear_op.node.name or ""

    def add_sample(
        self,
        before: Mapping[str, NDArray[Any]],
        after: Mapping[str, NDArray[Any]],
        number: int,
        samples: int,
        held_out: bool,
    ) -> None:
        """Add one sample, unless the input is empty or rounding changes its shape.

        Args:
            before: The inputs of layers in the float model, by name.
            after: The inputs of layers in the quantized model, by name.
            number: The sample's number.
            samples: How many samples there are in all.
            held_out: Whether the sample is held out.
        """
        real, rounded = before[self.float_name][None], after[self.quantized_name][None]
        if not real.size or real.shape != rounded.shape:
            return
        quota = count_rows_per_sample(self.linear_op, samples)
        [u], [v] = (
            self.linear_op.sample_rows(array, self.mean_shift.params, number, quota)
            for array in (real, rounded)
        )
        if held_out:
            self.pairs.held_out.append((u, v))
        else:
            self.pairs.add_training(u, v)
        for block in self.blocks:
            (block.held_out if held_out else block.training).update(v[:, block.inputs])
        sums = self.linear_op.channel_sums
        self.mean_shift.sums += sums(rounded) - sums(real)
        self.mean_shift.count += real.size // self.linear_op.input_channels

    def fit(self, correct_bias: bool) -> CompensationFit | None:
        """The compensating weights; None if held-out samples gain too little."""
        centred = correct_bias and is_correctable(self.linear_op.node)
        return fit_compensation(
            self.linear_op.weight_columns().astype(np.float64), self.pairs, centred=centred
        )


def _map_input_names(nodes: Iterable[Node], quantized: Graph) -> dict[str, str]:
    """The name in the quantized graph of each input of some layers, by its name in the float graph."""
    counterparts = {node.name: node for node in quantized.nodes}
    found = {}
    for node in nodes:
        real, rounded = node.inputs[0], counterparts[node.name].inputs[0]
        assert real is not None
        assert rounded is not None
        found[get_name(real)] = get_name(rounded)
    return found


def _compare_inputs(node: Node, quantized: Graph, plan: Plan) -> _InputComparison:
    layer = LinearOp(node)
    [(float_name, quantized_name)] = _map_input_names([node], quantized).items()
    slices = list(list_channel_blocks(layer, choose_max_block_size([layer]) // 2))
    sizes = [(layer.groups, inputs.stop - inputs.start) for inputs in slices]
    pairs = InputPairs(slices, [Covariance(groups, 2 * size) for groups, size in sizes], [])
    blocks = [
        CovarianceBlock(inputs, Covariance(*size), Covariance(*size))
        for inputs, size in zip(slices, sizes, strict=True)
    ]
    shift = MeanShift(plan.tensors[float_name], np.zeros(layer.input_channels))
    return _InputComparison(layer, float_name, quantized_name, pairs, blocks, shift)


def _add_samples(
    compared: Sequence[_InputComparison],
    real: Iterable[tuple[str, Mapping[str, NDArray[Any]]]],
    rounded: Iterable[tuple[str, Mapping[str, NDArray[Any]]]],
    held_out: Collection[str],
    count: int,
    run: RunOptions,
) -> None:
    """Run both models on the samples and add the inputs of the layers."""
    advance = run.start_stage(COMPENSATING, count)
    both = zip(real, rounded, strict=True)
    for number, ((name, before), (_, after)) in enumerate(both):
        add = methodcaller("add_sample", before, after, number, count, name in held_out)
        map_in_parallel(add, compared)
        advance()
    advance.end()
