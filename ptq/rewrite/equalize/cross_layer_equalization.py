"""Cross-layer equalization: scales channels between two layers so that one scale suits a whole weight.

Nagel et al. 2019, "Data-Free Quantization Through Weight Equalization and Bias Correction", section 4.1: the weights
and the bias of a channel are multiplied in the first layer, and its weights divided in the second. Afterwards high
biases are absorbed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ptq.model.graph import Graph
from ptq.model.node import get_constant
from ptq.model.weights.layer_weights import view_input_channels, view_output_channels
from ptq.rewrite.edit import set_constant
from ptq.rewrite.equalize.absorb_high_bias import absorb_high_bias
from ptq.rewrite.equalize.layer_pairs import LayerPair, find_layer_pairs

ChannelValues = Mapping[str, NDArray[np.float64]]
"""A value for each channel, for tensors between layers."""


def equalize_layers(graph: Graph, factors: ChannelValues, least: ChannelValues) -> Graph:
    """The graph with scaled channels and absorbed high biases.

    Args:
        graph: A prepared graph.
        factors: The factors of the channels that the first layer of a pair writes; no key, no change.
        least: The lowest value of each of these channels before it is scaled; no key, no absorption.

    Returns:
        A graph that computes the same, except for rounding, while no scaled channel exceeds the bounds of a Clip and
        no channel falls below its lowest value.
    """
    changed = graph.copy()
    pairs = find_layer_pairs(changed)
    for pair in pairs:
        if pair.output in factors:
            _scale_pair(changed, pair, factors[pair.output])
    for pair in pairs:
        if pair.output in least:
            absorb_high_bias(changed, pair, least[pair.output] * factors.get(pair.output, 1.0))
    changed.remove_unused()
    return changed.with_shapes()


def _scale_pair(graph: Graph, pair: LayerPair, factors: NDArray[np.float64]) -> None:
    first, second, bias = (
        None if value is None else get_constant(value)
        for value in (pair.first.inputs[1], pair.second.inputs[1], (*pair.first.inputs, None)[2])
    )
    assert first is not None
    assert second is not None
    above, below = np.array(first, np.float64), np.array(second, np.float64)
    view_output_channels(pair.first, above)[...] *= factors[:, None]
    table = view_input_channels(pair.second, below, pair.inputs_per_channel)
    table /= factors.reshape(table.shape[0], 1, table.shape[2], 1)
    set_constant(graph, pair.first, 1, above.astype(np.float32), "weight")
    set_constant(graph, pair.second, 1, below.astype(np.float32), "weight")
    if bias is not None:
        set_constant(graph, pair.first, 2, (bias * factors).astype(np.float32), "bias")
