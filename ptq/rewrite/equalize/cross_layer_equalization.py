"""Scales channels between layers so that they become alike and one scale suits a whole weight.

Nagel et al. 2019, "Data-Free Quantization Through Weight Equalization and Bias Correction", section 4.1: with
r₁ and r₂ the largest magnitudes of a channel's weights in the first and in the second layer, the first is multiplied
by √(r₂/r₁) and the second divided by it, again and again until nothing moves: three layers in a row are two pairs.
Samples say in addition how far each channel goes, for a Clip is homogeneous only where its bounds are not met: a
channel seen at one stays as it is, and no other is scaled to beyond one. Section 4.1.3, with the least value seen in
place of three standard deviations: what all values of a channel exceed on their way into a Relu is a constant, and
moves into the next layer's bias.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.model.graph import Graph
from ptq.model.layer_weights import input_channel_view, output_channel_view
from ptq.model.node import Node, attributes_of, constant_of, consumers_of, operator_of
from ptq.rewrite.edit import set_constant
from ptq.rewrite.equalize.layer_pairs import LayerPair, find_layer_pairs

MAX_ITERATIONS = 100
CONVERGED = 1e-3
MAX_FACTOR = 2.0**10
"""No channel is scaled by more: beyond, one of the weights says next to nothing."""

ChannelRanges = Mapping[str, tuple[NDArray[np.float32], NDArray[np.float32]]]
"""The least and the greatest value of each channel, by tensor."""


def equalize_layers(graph: Graph, seen: ChannelRanges) -> tuple[Graph, int]:
    """The graph with channels scaled, and between how many pairs of layers.

    Args:
        graph: A prepared graph.
        seen: Extremes of the channels of the pairs' outputs; a pair without is left alone.

    Returns:
        A graph that computes the same, but for rounding, wherever channels stay within what was seen.
    """
    changed = graph.copy()
    found = [pair for pair in find_layer_pairs(changed) if pair.output in seen]
    weights = {
        node: np.array(constant_of(node.inputs[1]), np.float64)
        for pair in found
        for node in (pair.first, pair.second)
    }
    scalings = [_PairScaling(pair, _factor_limits(pair, *seen[pair.output])) for pair in found]
    for _ in range(MAX_ITERATIONS):
        if max((scaling.equalize_once(weights) for scaling in scalings), default=0.0) < CONVERGED:
            break
    moved = [s for s in scalings if np.any(np.abs(np.log(s.factor)) > CONVERGED)]
    for scaling in moved:
        _scale_bias(changed, scaling)
    for node in dict.fromkeys(n for s in moved for n in (s.pair.first, s.pair.second)):
        set_constant(changed, node, 1, weights[node].astype(np.float32), "weight")
    for scaling in scalings:
        _absorb_high_bias(changed, scaling.pair, seen[scaling.pair.output][0] * scaling.factor)
    changed.remove_unused()
    return changed.with_shapes(), len(moved)


@dataclass(eq=False)
class _PairScaling:
    """The factors of a pair's channels while they are sought.

    Attributes:
        pair: The layers.
        limits: How large each factor may become; NaN for a channel that must stay as it is.
        factor: What each channel is multiplied by so far.
    """

    pair: LayerPair
    limits: NDArray[np.float64]
    factor: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        self.factor = np.ones_like(self.limits)

    def equalize_once(self, weights: Mapping[Node, NDArray[np.float64]]) -> float:
        """Scale the weights once, in place; the largest logarithm of a change."""
        above = output_channel_view(self.pair.first, weights[self.pair.first])
        below = input_channel_view(
            self.pair.second, weights[self.pair.second], self.pair.inputs_per_channel
        )
        first, second = np.abs(above).max(axis=1), np.abs(below).max(axis=(1, 3)).reshape(-1)
        living, fixed = (first > 0) & (second > 0), np.isnan(self.limits)
        free = living & ~fixed
        if not free.any():
            return 0.0
        # where some channels stay, the others come to fill the ranges that those leave
        measure = living & fixed if np.any(living & fixed) else living
        ratio = first[measure].max() / second[measure].max()
        factor = self.factor.copy()
        factor[free] *= np.sqrt(ratio * second[free] / first[free])
        factor[free] = np.clip(
            factor[free], 1 / MAX_FACTOR, np.minimum(self.limits[free], MAX_FACTOR)
        )
        change = factor / self.factor
        above *= change[:, None]
        below /= change.reshape(below.shape[0], 1, below.shape[2], 1)
        self.factor = factor
        return float(np.abs(np.log(change)).max())


def _factor_limits(
    pair: LayerPair, least: NDArray[Any], greatest: NDArray[Any]
) -> NDArray[np.float64]:
    """How far each channel can be scaled before it meets a bound; NaN where it has met one."""
    limits = np.full(least.shape, np.inf)
    for sign, bound, extreme in zip((-1, 1), pair.clip_bounds(), (least, greatest), strict=True):
        size = np.maximum(sign * extreme.astype(np.float64), np.finfo(np.float32).tiny)
        if bound != 0:  # 0 bounds a channel alike at every scale
            limits = np.minimum(limits, sign * bound / size)
    return np.where(limits <= 1, np.nan, limits)


def _scale_bias(graph: Graph, scaling: _PairScaling) -> None:
    node = scaling.pair.first
    bias = constant_of(node.inputs[2]) if len(node.inputs) > 2 else None
    if bias is not None:
        set_constant(graph, node, 2, (bias * scaling.factor).astype(np.float32), "bias")


def _absorb_high_bias(graph: Graph, pair: LayerPair, least: NDArray[Any]) -> None:
    """Move into the second layer's bias what all values of a channel exceed before a Relu that they pass.

    A layer that pads reads zeros where the constant would have to be.
    """
    between = consumers_of(pair.first.outputs[0])
    first, second = ([constant_of(v) for v in node.inputs] for node in (pair.first, pair.second))
    if (
        [operator_of(node) for node in between] != ["Relu"]
        or consumers_of(between[0].outputs[0]) != [pair.second]
        or len(first) < 3
        or len(second) < 3
        or any(attributes_of(pair.second).get("pads", ()))
        or attributes_of(pair.second).get("auto_pad", "NOTSET") not in ("NOTSET", "VALID")
    ):
        return
    over = np.maximum(least.astype(np.float64), 0)
    before, after, weight = first[2], second[2], second[1]
    if before is None or after is None or weight is None or not over.any():
        return
    table = input_channel_view(pair.second, weight.astype(np.float64), pair.inputs_per_channel)
    moved = np.einsum("goij,gi->go", table, over.reshape(table.shape[0], -1)).reshape(-1)
    set_constant(graph, pair.first, 2, (before - over).astype(np.float32), "bias")
    set_constant(graph, pair.second, 2, (after + moved).astype(np.float32), "bias")
