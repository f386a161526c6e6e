"""Which operators could saturate sums of two products on x86 without VNNI? Told from the weights alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.graph import Graph
from ptq.kernels.pairs import saturable
from ptq.nodes import Node, attributes, constant, operator
from ptq.rewrite.unsigned_weights import signed_weight

REMEDIES = (
    "set the session option session.x64quantprecision=1 where the model runs, with graph optimizations on",
    "store the weights as uint8 (--weights u8): the same integers everywhere, up to 2 times as slow with VNNI",
)
"""What makes a processor without VNNI sum as all others do; either is enough."""


def saturable_nodes(graph: Graph) -> tuple[str, ...]:
    """The nodes with an output channel whose weights let 255·w1 + 255·w2 leave int16, in the graph's order."""
    return tuple(node.name or "" for node in graph.nodes if _reaches(node))


def _reaches(node: Node) -> bool:
    place = signed_weight(node)
    w = constant(place[0].inputs[place[1]]) if place is not None else None
    if w is None:
        return False
    kind = operator(node).removeprefix("com.microsoft::").removeprefix("QLinear")
    if kind == "Conv":
        if w.shape[1] == 1 and len(w) == int(attributes(node).get("group", 1)):
            return False  # one input and one output channel a group sum exactly
        # a window's positions, and fastest the channels of a group
        return _any(np.moveaxis(w, 1, -1).reshape(len(w), -1).T)
    if attributes(node).get("transB", 0):
        return _any(w.T)
    return any(_any(matrix) for matrix in w.reshape(-1, *w.shape[-2:])) if w.ndim > 1 else False


def _any(columns: NDArray[Any]) -> bool:
    return bool(saturable(columns).any())
