"""Cross-layer equalization of pairs of layers, and high-bias absorption.

Nagel et al. 2019, "Data-Free Quantization Through Weight Equalization and Bias Correction", section 4.1. Let r₁ and
r₂ be the largest magnitudes of a channel's weights in the first and in the second layer. The first layer's channel is
multiplied by √(r₂/r₁) and the second layer's divided by it. This is repeated until it converges, because three layers
in a row are two pairs. One scale then suits a whole weight.

Here samples also give the range of each channel, because a Clip is homogeneous only between its bounds. A channel
that reaches a bound stays unchanged, and no other channel is scaled beyond a bound.

High-bias absorption is section 4.1.3, with the least value on samples in place of three standard deviations. If all
values of a channel exceed a positive constant before a Relu, this constant moves into the bias of the next layer.
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
"""Limit of a channel's factor; beyond it, one of the two weights would hardly matter."""

ChannelRanges = Mapping[str, tuple[NDArray[np.float32], NDArray[np.float32]]]
"""By tensor, the least and the greatest value of each channel."""


def equalize_layers(graph: Graph, ranges: ChannelRanges) -> tuple[Graph, int]:
    """A graph with equalized layers, and the number of scaled pairs of layers.

    Args:
        graph: A prepared graph.
        ranges: Ranges of the channels between the pairs; a pair without them stays unchanged.

    Returns:
        A graph that computes the same, except for rounding, as long as channels stay within the ranges.
    """
    changed = graph.copy()
    pairs = [pair for pair in find_layer_pairs(changed) if pair.output in ranges]
    weights = {
        node: np.array(constant_of(node.inputs[1]), np.float64)
        for pair in pairs
        for node in (pair.first, pair.second)
    }
    scalings = [_PairScaling(pair, _factor_limits(pair, *ranges[pair.output])) for pair in pairs]
    for _ in range(MAX_ITERATIONS):
        if max((scaling.equalize_once(weights) for scaling in scalings), default=0.0) < CONVERGED:
            break
    scaled = [s for s in scalings if np.any(np.abs(np.log(s.factor)) > CONVERGED)]
    for scaling in scaled:
        _scale_bias(changed, scaling)
    for node in dict.fromkeys(n for s in scaled for n in (s.pair.first, s.pair.second)):
        set_constant(changed, node, 1, weights[node].astype(np.float32), "weight")
    for scaling in scalings:
        _absorb_high_bias(changed, scaling.pair, ranges[scaling.pair.output][0] * scaling.factor)
    changed.remove_unused()
    return changed.with_shapes(), len(scaled)


@dataclass(eq=False)
class _PairScaling:
    """The factors of a pair's channels during the iteration.

    Attributes:
        pair: The layers.
        limits: The upper limit of each factor; NaN for a channel that must stay unchanged.
        factor: The factor of each channel so far.
    """

    pair: LayerPair
    limits: NDArray[np.float64]
    factor: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        self.factor = np.ones_like(self.limits)

    def equalize_once(self, weights: Mapping[Node, NDArray[np.float64]]) -> float:
        """Scale the weights once, in place; the largest magnitude of the logarithm of a change."""
        above = output_channel_view(self.pair.first, weights[self.pair.first])
        below = input_channel_view(
            self.pair.second, weights[self.pair.second], self.pair.inputs_per_channel
        )
        first, second = np.abs(above).max(axis=1), np.abs(below).max(axis=(1, 3)).reshape(-1)
        used, fixed = (first > 0) & (second > 0), np.isnan(self.limits)
        free = used & ~fixed
        if not free.any():
            return 0.0
        # If some channels are fixed, the other channels fill the ranges that the fixed ones set.
        measure = used & fixed if np.any(used & fixed) else used
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
    """The factor at which each channel reaches a bound of the Clip; NaN if it reaches one already."""
    limits = np.full(least.shape, np.inf)
    for sign, bound, extreme in zip((-1, 1), pair.clip_bounds(), (least, greatest), strict=True):
        size = np.maximum(sign * extreme.astype(np.float64), np.finfo(np.float32).tiny)
        if bound != 0:  # a bound of 0 is the same at every scale
            limits = np.minimum(limits, sign * bound / size)
    return np.where(limits <= 1, np.nan, limits)


def _scale_bias(graph: Graph, scaling: _PairScaling) -> None:
    node = scaling.pair.first
    bias = constant_of(node.inputs[2]) if len(node.inputs) > 2 else None
    if bias is not None:
        set_constant(graph, node, 2, (bias * scaling.factor).astype(np.float32), "bias")


def _absorb_high_bias(graph: Graph, pair: LayerPair, least: NDArray[Any]) -> None:
    """Move the part of a channel that all values exceed before a Relu into the second layer's bias.

    A layer with padding is left out, because it reads zeros in place of this constant.
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
    excess = np.maximum(least.astype(np.float64), 0)
    before, after, weight = first[2], second[2], second[1]
    if before is None or after is None or weight is None or not excess.any():
        return
    table = input_channel_view(pair.second, weight.astype(np.float64), pair.inputs_per_channel)
    absorbed = np.einsum("goij,gi->go", table, excess.reshape(table.shape[0], -1)).reshape(-1)
    set_constant(graph, pair.first, 2, (before - excess).astype(np.float32), "bias")
    set_constant(graph, pair.second, 2, (after + absorbed).astype(np.float32), "bias")
