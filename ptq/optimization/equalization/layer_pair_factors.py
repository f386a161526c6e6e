"""Cross-layer equalization: factors of the channels between two layers whose weights have one scale each.

Nagel et al. 2019, "Data-Free Quantization Through Weight Equalization and Bias Correction", section 4.1. Each pair of
layers is a family of channels, see `ptq.optimization.channel_families`. A layer between two others belongs to two
pairs, so the pairs are solved in turn until no factor changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ptq.calibration.channel_spreads import Spreads, merge_spreads
from ptq.model.graph import Graph
from ptq.model.node import Node, get_constant, get_input_name
from ptq.model.weights.layer_weights import view_input_channels, view_output_channels
from ptq.optimization.channel_families import (
    MIN_GAIN,
    MIN_RATIO,
    ChannelFamily,
    ReadingLayer,
    RoundedTensor,
    WritingLayer,
    raise_small,
)
from ptq.rewrite.equalize.layer_pairs import LayerPair, clip_limits, find_layer_pairs

MAX_FACTOR = 2.0**10
"""The largest factor; beyond it one of the two weights has hardly any effect."""
_MAX_SWEEPS = 10

Array = NDArray[np.float64]


def list_pair_tensors(graph: Graph) -> dict[str, int]:
    """The tensors whose spreads `balance_layer_pairs` needs, with their channel axes."""
    pairs = find_layer_pairs(graph)
    return dict.fromkeys((name for pair in pairs for name in _get_tensors(pair)), 1)


def balance_layer_pairs(graph: Graph, folds: Sequence[Spreads]) -> dict[str, Array]:
    """The factor of each channel that the first layer of a pair writes, by tensor; only pairs that gain.

    Args:
        graph: A prepared graph.
        folds: The spreads of the tensors of pairs, in each fold of the samples.
    """
    spreads = merge_spreads(folds)
    pairs = [p for p in find_layer_pairs(graph) if spreads.keys() >= set(_get_tensors(p))]
    layers = {node: _Layer(node) for pair in pairs for node in (pair.first, pair.second)}
    limits = {pair.output: _compute_factor_limits(pair, folds) for pair in pairs}
    for _ in range(_MAX_SWEEPS):
        changes = [_solve_pair(p, layers, spreads, limits[p.output]) for p in pairs]
        if not any(changes):
            break
    factors = {pair.output: layers[pair.first].output_factors for pair in pairs}
    return {name: by for name, by in factors.items() if (by != 1).any()}


@dataclass(eq=False)
class _Layer:
    """A layer of one or two pairs.

    Attributes:
        node: The layer.
        weight: Its weight with the factors so far.
        input_factors: The factor of each input so far.
        output_factors: The factor of each output channel so far.
    """

    node: Node
    weight: Array = field(init=False)
    input_factors: Array | None = None
    output_factors: Array = field(init=False)

    def __post_init__(self) -> None:
        self.weight = np.array(get_constant(self.node.inputs[1]), np.float64)
        self.output_factors = np.ones(len(view_output_channels(self.node, self.weight)))

    def mean_squares(self, spreads: Spreads) -> Array:
        """The mean square of each input channel, with the factors so far."""
        spread = spreads[get_input_name(self.node)]
        factors = 1.0 if self.input_factors is None else self.input_factors
        return spread.sum_of_squares / spread.count * np.square(factors)


def _solve_pair(
    pair: LayerPair, layers: Mapping[Node, _Layer], spreads: Spreads, limits: Array
) -> bool:
    """Scale the channels of a pair once; return whether that changed a factor."""
    first, second, width = layers[pair.first], layers[pair.second], pair.inputs_per_channel
    count = len(first.output_factors)
    groups = np.repeat(np.arange(count), width)
    above = view_output_channels(pair.first, first.weight)
    below = view_input_channels(pair.second, second.weight, 1)
    parts, outputs, depth, taps = below.shape
    gains = 1 / np.square(second.output_factors).reshape(parts, outputs)
    energies = np.einsum("godt,go->gd", np.square(below), gains).reshape(-1)
    so_far = np.repeat(first.output_factors, width)
    spread = spreads[get_input_name(pair.second)]
    least = np.minimum(spread.least.astype(np.float64), 0.0) * so_far
    greatest = np.maximum(spread.greatest.astype(np.float64), 0.0) * so_far
    written = np.abs(above).max(axis=1)
    inputs = first.mean_squares(spreads)
    family = ChannelFamily(
        (limits > first.output_factors) & (written > 0) & (np.bincount(groups, energies) > 0),
        [
            RoundedTensor(
                groups,
                least,
                greatest,
                raise_small(np.maximum(-least, greatest), MIN_RATIO),
                WritingLayer(
                    raise_small(written, MIN_RATIO)[groups],
                    float(inputs.mean()) * above.shape[1],
                ),
            )
        ],
        [
            ReadingLayer(
                groups,
                second.mean_squares(spreads),
                np.abs(below).max(axis=3),
                energies,
                taps,
                gains,
            )
        ],
        MIN_RATIO,
    )
    if not family.scalable.any():
        return False
    change = family.best_factors(limits / first.output_factors, MIN_GAIN)
    change = np.clip(
        change, 1 / MAX_FACTOR / first.output_factors, MAX_FACTOR / first.output_factors
    )
    above *= change[:, None]
    below /= change[groups].reshape(parts, 1, depth, 1)
    first.output_factors = first.output_factors * change
    second.input_factors = np.repeat(first.output_factors, width)
    return bool((change != 1).any())


def _compute_factor_limits(pair: LayerPair, folds: Sequence[Spreads]) -> Array:
    seen = [fold[pair.output] for fold in folds if pair.output in fold]
    return clip_limits(pair.clip_bounds, [(spread.least, spread.greatest) for spread in seen])


def _get_tensors(pair: LayerPair) -> tuple[str, str, str]:
    return get_input_name(pair.first), pair.output, get_input_name(pair.second)
