"""Conv, Gemm without bias → Conv, Gemm with a bias of zeros.

A bias costs nothing in integers. LiteRT's CONV_2D requires one, and bias correction needs one to change.
"""

from __future__ import annotations

import numpy as np

from ptq.model.graph import Graph
from ptq.model.node import constant_of, operator_of
from ptq.model.weights.layer_weights import output_channel_count
from ptq.rewrite.change import Change


def add_zero_bias(graph: Graph) -> list[Change]:
    """Add a bias of zeros to each layer with a constant weight and no bias, in place."""
    count = 0
    for node in graph.nodes:
        weight = constant_of(node.inputs[1]) if len(node.inputs) > 1 else None
        has_bias = len(node.inputs) > 2 and node.inputs[2] is not None
        if operator_of(node) not in ("Conv", "Gemm") or weight is None or has_bias:
            continue
        zeros = np.zeros(output_channel_count(node, weight.shape), weight.dtype)
        node.resize_inputs(3)
        node.replace_input_with(2, graph.add_constant(zeros, f"{node.outputs[0].name}_bias"))
        count += 1
    return [Change("add_zero_bias", count)] if count else []
