"""Between which layers may channels be scaled without changing the function?

Where what lies between is homogeneous, f(a x) = a f(x) for a > 0, channel c of the first layer's output may be
multiplied by a_c and the second layer's weights for it divided by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ptq.model.graph import Graph
from ptq.model.layer_weights import input_channel_view, layer_channels
from ptq.model.node import (
    Node,
    attributes_of,
    constant_of,
    consumers_of,
    name_of,
    operator_of,
    shape_of,
)
from ptq.rewrite.match import scalar_constant

HOMOGENEOUS = frozenset(
    ["AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LeakyRelu", "MaxPool", "PRelu", "Relu"]
)
"""Operators through which a channel's positive factor passes; Clip and Flatten do under conditions."""


@dataclass(frozen=True, eq=False)
class LayerPair:
    """Two linear layers, the second alone reading what the first puts out.

    Attributes:
        first: Its output channels may be scaled.
        second: It reads them.
        clip: The bounded activation between them, if there is one.
        width: Inputs of the second layer for each channel of the first: more than 1 after a Flatten.
    """

    first: Node
    second: Node
    clip: Node | None
    inputs_per_channel: int

    @property
    def output(self) -> str:
        """The tensor that is scaled."""
        return name_of(self.first.outputs[0])

    def clip_bounds(self) -> tuple[float, float]:
        """What the Clip lets through; everything without one."""
        return (-np.inf, np.inf) if self.clip is None else clip_bounds(self.clip)


def find_layer_pairs(graph: Graph) -> list[LayerPair]:
    """The pairs of layers between which channels may be scaled, in graph order."""
    found = [_find_pair(node) for node in graph.nodes]
    return [pair for pair in found if pair is not None]


def _find_pair(first: Node) -> LayerPair | None:
    """The pair that a node is the first of."""
    channels = layer_channels(first)
    if channels is None:
        return None
    value, clip, width, bent = first.outputs[0], None, 1, False
    while True:
        readers = consumers_of(value)
        if len(readers) != 1 or value.is_graph_output() or readers[0].graph is not first.graph:
            return None
        node = readers[0]
        if list(node.inputs).count(value) != 1 or node.inputs[0] is not value:
            return None
        op = operator_of(node)
        if layer_channels(node) is not None:
            return (
                LayerPair(first, node, clip, width)
                if _input_count(node) == channels * width
                else None
            )
        if op == "Clip" and clip is None and not bent and is_bounded(node):
            clip = node
        elif op == "Flatten" and width == 1:
            shape = shape_of(value)
            if attributes_of(node).get("axis", 1) != 1 or shape is None or None in shape[1:]:
                return None
            width = prod(n or 1 for n in shape[2:])
        elif op not in HOMOGENEOUS or len(node.outputs) != 1 or (op == "PRelu" and width > 1):
            return None
        bent = bent or op in ("LeakyRelu", "PRelu")  # what was seen before it says little after it
        value = node.outputs[0]


def _input_count(node: Node) -> int:
    weight = constant_of(node.inputs[1])
    assert weight is not None
    table = input_channel_view(node, weight, 1)
    return int(table.shape[0] * table.shape[2])


def clip_bounds(clip: Node) -> tuple[float, float]:
    """What a Clip lets through."""
    found = [-np.inf, np.inf]
    for place, value in enumerate(clip.inputs[1:3]):
        given = scalar_constant(value)
        found[place] = found[place] if given is None else given
    return found[0], found[1]


def is_bounded(node: Node) -> bool:
    """Whether both bounds of a Clip are constants, and 0 lies within."""
    lo, hi = clip_bounds(node)
    given = [value for value in node.inputs[1:3] if value is not None]
    return all(scalar_constant(value) is not None for value in given) and lo <= 0 <= hi
