"""High bias absorption: a constant that every value of a channel exceeds passes a Relu into the next layer's bias.

Nagel et al. 2019, "Data-Free Quantization Through Weight Equalization and Bias Correction", section 4.1.3, with the
lowest observed value in place of three standard deviations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.model.graph import Graph
from ptq.model.node import get_attributes, get_constant, get_operator, list_consumers
from ptq.model.weights.layer_weights import view_input_channels
from ptq.rewrite.edit import set_constant
from ptq.rewrite.equalize.layer_pairs import LayerPair


def absorb_high_bias(graph: Graph, pair: LayerPair, least: NDArray[Any]) -> None:
    """Subtract from the first bias what all values of a channel exceed before a Relu, and add it to the second bias.

    Nothing changes if the second layer pads: it would read zeros in place of the constant.

    Args:
        graph: The graph to change.
        pair: Two layers with a Relu between them; other pairs stay unchanged.
        least: The lowest value of each channel of the first layer's output.
    """
    between = list_consumers(pair.first.outputs[0])
    first, second = ([get_constant(v) for v in node.inputs] for node in (pair.first, pair.second))
    if (
        [get_operator(node) for node in between] != ["Relu"]
        or list_consumers(between[0].outputs[0]) != [pair.second]
        or len(first) < 3
        or len(second) < 3
        or any(get_attributes(pair.second).get("pads", ()))
        or get_attributes(pair.second).get("auto_pad", "NOTSET") not in ("NOTSET", "VALID")
    ):
        return
    excess = np.maximum(least.astype(np.float64), 0)
    before, after, weight = first[2], second[2], second[1]
    if before is None or after is None or weight is None or not excess.any():
        return
    table = view_input_channels(pair.second, weight.astype(np.float64), pair.inputs_per_channel)
    absorbed = np.einsum("goij,gi->go", table, excess.reshape(table.shape[0], -1)).reshape(-1)
    set_constant(graph, pair.first, 2, (before - excess).astype(np.float32), "bias")
    set_constant(graph, pair.second, 2, (after + absorbed).astype(np.float32), "bias")
