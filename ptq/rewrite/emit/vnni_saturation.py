"""Nodes that can saturate sums of two products on x86 without VNNI, found from the weights alone."""

from __future__ import annotations

from ptq.kernels.int16_saturation import MAX_PAIR_SUM, largest_pair_sum, weight_matrix
from ptq.model.graph import Graph
from ptq.model.node import Node, attributes_of, constant_of, operator_of
from ptq.rewrite.shift_to_uint8 import find_int8_weight

REMEDIES = (
    "quantize with --weights reduced: int8 weights no two neighbours of which saturate, as fast; costs 0 to 1.3 dB",
    "store the weights as uint8 (--weights u8): the same integers everywhere, up to 2 times as slow",
    "set the session option session.x64quantprecision=1 where the model runs, with graph optimizations on: as "
    "slow, and not for QLinearMatMul from opset 21 on",
)
"""Ways to get the same sums on a processor without VNNI as on others; each is enough."""


def saturable_nodes(graph: Graph) -> tuple[str, ...]:
    """The nodes with weights w1, w2 of one channel for which 255·w1 + 255·w2 exceeds int16, in graph order."""
    return tuple(node.name or "" for node in graph.nodes if _can_saturate(node))


def _can_saturate(node: Node) -> bool:
    place = find_int8_weight(node)
    w = constant_of(place[0].inputs[place[1]]) if place is not None else None
    if w is None:
        return False
    kind = operator_of(node).removeprefix("com.microsoft::").removeprefix("QLinear")
    columns = weight_matrix(kind, w, attributes_of(node))
    return columns is not None and bool((largest_pair_sum(columns) > MAX_PAIR_SUM).any())
