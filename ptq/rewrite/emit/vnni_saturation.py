"""Which operators could saturate sums of two products on x86 without VNNI? Told from the weights alone."""

from __future__ import annotations

from ptq.kernels.int16_saturation import MOST, largest, summed
from ptq.model.graph import Graph
from ptq.model.node import Node, attributes, constant, operator
from ptq.rewrite.emit.uint8_weights import signed_weight

REMEDIES = (
    "quantize with --weights reduced: int8 weights no two neighbours of which saturate, as fast; costs 0 to 1.3 dB",
    "store the weights as uint8 (--weights u8): the same integers everywhere, up to 2 times as slow",
    "set the session option session.x64quantprecision=1 where the model runs, with graph optimizations on: as "
    "slow, and not for QLinearMatMul from opset 21 on",
)
"""What makes a processor without VNNI sum as all others do; each is enough."""


def saturable_nodes(graph: Graph) -> tuple[str, ...]:
    """The nodes with an output channel whose weights let 255·w1 + 255·w2 leave int16, in the graph's order."""
    return tuple(node.name or "" for node in graph.nodes if _reaches(node))


def _reaches(node: Node) -> bool:
    place = signed_weight(node)
    w = constant(place[0].inputs[place[1]]) if place is not None else None
    if w is None:
        return False
    kind = operator(node).removeprefix("com.microsoft::").removeprefix("QLinear")
    columns = summed(kind, w, attributes(node))
    return columns is not None and bool((largest(columns) > MOST).any())
