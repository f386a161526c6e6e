"""Nodes that can saturate sums of two products on x86 without VNNI, found from the weights alone."""

from __future__ import annotations

from ptq.kernels.int16_saturation import MAX_PAIR_SUM, find_largest_pair_sum
from ptq.model.graph import Graph
from ptq.model.node import Node, get_constant, get_node_name
from ptq.model.weights.layer_weights import build_channel_pair_matrix, view_summation_order_matrix
from ptq.rewrite.shift_to_uint8 import find_int8_weight

REMEDIES = (
    "quantize with weight format reduced: neighbouring int8 weights cannot saturate; same speed, costs 0 to 1.2 dB",
    "quantize with weight format u8: uint8 weights give the same integers on every processor; up to 2 times slower",
    "set the session option session.x64quantprecision=1 where the model runs, with graph optimizations on: up to 2 "
    "times slower, and without effect on QLinearMatMul from opset 21 on",
)
"""Ways to get the same sums on a processor without VNNI as with it; one of them is enough."""


def find_saturable_nodes(graph: Graph, *, pairs_channels: bool = False) -> tuple[str, ...]:
    """The nodes with weights w1, w2 of one channel for which 255·w1 + 255·w2 exceeds int16, in graph order.

    Args:
        graph: The quantized model.
        pairs_channels: Consider OpenVINO's order of additions too (`ptq.core.target.Target.pairs_channels`).
    """
    return tuple(get_node_name(node) for node in graph.nodes if _can_saturate(node, pairs_channels))


def _can_saturate(node: Node, pairs_channels: bool) -> bool:
    place = find_int8_weight(node)
    w = get_constant(place[0].inputs[place[1]]) if place is not None else None
    if w is None:
        return False
    orders = [view_summation_order_matrix(node, w)]
    if pairs_channels:
        orders.append(build_channel_pair_matrix(node, w))
    return any(
        columns is not None and bool((find_largest_pair_sum(columns) > MAX_PAIR_SUM).any())
        for columns in orders
    )
