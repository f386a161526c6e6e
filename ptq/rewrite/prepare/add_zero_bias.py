"""Gives a bias of zeros to the convolutions and Gemms without one.

It costs nothing in integers, LiteRT's CONV_2D refuses to go without, and bias correction needs a place.
"""

from __future__ import annotations

import numpy as np

from ptq.model.graph import Graph
from ptq.model.node import attributes_of, constant_of, operator_of


def add_zero_bias(graph: Graph) -> list[str]:
    """Add the biases, in place; nothing to report."""
    for node in graph.nodes:
        weight = constant_of(node.inputs[1]) if len(node.inputs) > 1 else None
        absent = len(node.inputs) < 3 or node.inputs[2] is None
        if operator_of(node) not in ("Conv", "Gemm") or weight is None or not absent:
            continue
        columns = operator_of(node) == "Gemm" and not attributes_of(node).get("transB")
        zeros = np.zeros(weight.shape[1 if columns else 0], weight.dtype)
        node.resize_inputs(3)
        node.replace_input_with(2, graph.add_constant(zeros, f"{node.outputs[0].name}_bias"))
    return []
