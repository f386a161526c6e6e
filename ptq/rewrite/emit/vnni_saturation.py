"""Which operators could saturate sums of two products on x86 without VNNI? Told from the weights alone."""

from __future__ import annotations

from ptq.kernels.int16_saturation import MAX_PAIR_SUM, largest_pair_sum, weight_matrix
from ptq.model.graph import Graph
from ptq.model.node import Node, attributes_of, constant_of, operator_of
from ptq.rewrite.emit.uint8_weights import find_int8_weight

REMEDIES = (
    "quantize with --weights reduced: int8 weights no two neighbours of which saturate, as fast; costs 0 to 1.3 dB",
    "store the weights as uint8 (--weights u8): the same integers everywhere, up to 2 times as slow",
    "set the session option session.x64quantprecision=1 where the model runs, with graph optimizations on: as "
    "slow, and not for QLinearMatMul from opset 21 on",
)
"""What makes a processor without VNNI sum as all others do; each is enough."""


def saturable_nodes(graph: Graph) -> tuple[str, ...]:
    """The nodes with an output channel whose weights let 255·w1 + 255·w2 leave int16, in the graph's order."""
    return tuple(node.name or "" for node in graph.nodes if _can_saturate(node))


def _can_saturate(node: Node) -> bool:
    place = find_int8_weight(node)
    w = constant_of(place[0].inputs[place[1]]) if place is not None else None
    if w is None:
        return False
    kind = operator_of(node).removeprefix("com.microsoft::").removeprefix("QLinear")
    columns = weight_matrix(kind, w, attributes_of(node))
    return columns is not None and bool((largest_pair_sum(columns) > MAX_PAIR_SUM).any())
