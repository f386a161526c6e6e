"""Conv, Gemm without bias → Conv, Gemm with a bias of zeros.

A bias costs nothing in integers. LiteRT's CONV_2D requires one, and bias correction needs one to change.
"""

from __future__ import annotations

import numpy as np

from ptq.model.graph import Graph
from ptq.model.node import get_constant, get_operator
from ptq.model.weights.layer_weights import count_output_channels
from ptq.rewrite.change import Change


def add_zero_bias(graph: Graph) -> list[Change]:
    """Add a bias of zeros to each layer with a constant weight and no bias, in place."""
    count = 0
    for node in graph.nodes:
        weight = get_constant(node.inputs[1]) if len(node.inputs) > 1 else None
        has_bias = len(node.inputs) > 2 and node.inputs[2] is not None
        if get_operator(node) not in ("Conv", "Gemm") or weight is None or has_bias:
            continue
        zeros = np.zeros(count_output_channels(node, weight.shape), weight.dtype)
        node.resize_inputs(3)
        node.replace_input_with(2, graph.add_constant(zeros, f"{node.outputs[0].name}_bias"))
        count += 1
    return [Change("add_zero_bias", count)] if count else []
