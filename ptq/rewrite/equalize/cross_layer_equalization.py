"""Cross-layer equalization: scales channels between layers so that one scale suits a whole weight.

Nagel et al. 2019, "Data-Free Quantization Through Weight Equalization and Bias Correction", section 4.1. Let r₁ and
r₂ be the largest magnitudes of a channel's weights in the first and in the second layer. The first is multiplied by
√(r₂/r₁), and the second divided by it, until no factor changes: three layers in a row are two pairs. Samples give the
extremes of each channel, because a Clip is homogeneous only between its bounds: a channel that reaches a bound keeps
its scale, and no other channel is scaled beyond a bound. Afterwards high biases are absorbed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ptq.model.graph import Graph
from ptq.model.layer_weights import input_channel_view, output_channel_view
from ptq.model.node import Node, constant_of
from ptq.rewrite.edit import set_constant
from ptq.rewrite.equalize.absorb_high_bias import absorb_high_bias
from ptq.rewrite.equalize.layer_pairs import LayerPair, clip_limits, find_layer_pairs

MAX_ITERATIONS = 100
CONVERGED = 1e-3
MAX_FACTOR = 2.0**10
"""The largest factor; beyond it one of the two weights has hardly any effect."""

ChannelRanges = Mapping[str, tuple[NDArray[np.float32], NDArray[np.float32]]]
"""The lowest and the highest value of each channel, for each tensor."""


def equalize_layers(graph: Graph, folds: Sequence[ChannelRanges]) -> tuple[Graph, int]:
    """The graph with scaled channels, and the number of layer pairs that were scaled.

    Args:
        graph: A prepared graph.
        folds: Extremes of the channels of the pairs' outputs in each fold of the samples; a pair without them stays
            unchanged.

    Returns:
        A graph that computes the same, except for rounding, while channels stay within the given extremes.
    """
    changed = graph.copy()
    pairs = find_layer_pairs(changed)
    seen = {p.output: [fold[p.output] for fold in folds if p.output in fold] for p in pairs}
    found = [pair for pair in pairs if seen[pair.output]]
    weights = {
        node: np.array(constant_of(node.inputs[1]), np.float64)
        for pair in found
        for node in (pair.first, pair.second)
    }
    scalings = [_PairScaling(pair, _factor_limits(pair, seen[pair.output])) for pair in found]
    for _ in range(MAX_ITERATIONS):
        if max((scaling.equalize_once(weights) for scaling in scalings), default=0.0) < CONVERGED:
            break
    scaled = [s for s in scalings if np.any(np.abs(np.log(s.factor)) > CONVERGED)]
    for scaling in scaled:
        _scale_bias(changed, scaling)
    for node in dict.fromkeys(n for s in scaled for n in (s.pair.first, s.pair.second)):
        set_constant(changed, node, 1, weights[node].astype(np.float32), "weight")
    for scaling in scalings:
        least = np.min([least for least, _ in seen[scaling.pair.output]], axis=0)
        absorb_high_bias(changed, scaling.pair, least * scaling.factor)
    changed.remove_unused()
    return changed.with_shapes(), len(scaled)


@dataclass(eq=False)
class _PairScaling:
    """The factors of the channels of a layer pair.

    Attributes:
        pair: The layers.
        limits: The largest factor of each channel; NaN for a channel that must keep its scale.
        factor: The factor of each channel so far.
    """

    pair: LayerPair
    limits: NDArray[np.float64]
    factor: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        self.factor = np.ones_like(self.limits)

    def equalize_once(self, weights: Mapping[Node, NDArray[np.float64]]) -> float:
        """Scale the weights once, in place; return the largest logarithm of a change."""
        above = output_channel_view(self.pair.first, weights[self.pair.first])
        below = input_channel_view(
            self.pair.second, weights[self.pair.second], self.pair.inputs_per_channel
        )
        first, second = np.abs(above).max(axis=1), np.abs(below).max(axis=(1, 3)).reshape(-1)
        alive, fixed = (first > 0) & (second > 0), np.isnan(self.limits)
        free = alive & ~fixed
        if not free.any():
            return 0.0
        # where some channels keep their scale, the others are scaled to fill the same ranges
        measure = alive & fixed if np.any(alive & fixed) else alive
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
    pair: LayerPair, folds: Sequence[tuple[NDArray[np.float32], NDArray[np.float32]]]
) -> NDArray[np.float64]:
    """The largest factor of each channel; NaN for a channel near a Clip bound."""
    limits = clip_limits(pair.clip_bounds(), folds)
    return np.where(limits <= 1, np.nan, limits)


def _scale_bias(graph: Graph, scaling: _PairScaling) -> None:
    node = scaling.pair.first
    bias = constant_of(node.inputs[2]) if len(node.inputs) > 2 else None
    if bias is not None:
        set_constant(graph, node, 2, (bias * scaling.factor).astype(np.float32), "bias")
