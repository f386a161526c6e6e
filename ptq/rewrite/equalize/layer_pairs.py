"""Pairs of layers between which channels may be scaled without a change of the function.

Everything between them must be homogeneous: f(a x) = a f(x) for a > 0. Channel c of the first layer's output may then
be multiplied by a_c. The second layer's weights for this channel are divided by a_c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from ptq.core.opspec import WEIGHT_INPUT
from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    find_clip_bounds,
    get_attributes,
    get_constant_shape,
    get_name,
    get_operator,
    get_shape,
    list_consumers,
)
from ptq.model.weights.layer_weights import count_input_channels, count_layer_channels
from ptq.model.weights.shared_weights import find_weight_families

HOMOGENEOUS = frozenset(
    ["AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LeakyRelu", "MaxPool", "PRelu", "Relu"]
)
"""Operators through which a channel's positive factor passes; it passes Clip and Flatten under conditions."""


@dataclass(frozen=True, eq=False)
class LayerPair:
    """Two layers; the second alone reads the output of the first.

    Attributes:
        first: The layer whose output channels may be scaled.
        second: The layer that reads them.
        clip_bounds: The bounds of the Clip between them; infinite if there is none.
        inputs_per_channel: Inputs of the second layer for each channel of the first: more than 1 after a Flatten.
    """

    first: Node
    second: Node
    clip_bounds: tuple[float, float]
    inputs_per_channel: int

    @property
    def output(self) -> str:
        """The name of the tensor that is scaled."""
        return get_name(self.first.outputs[0])


def find_layer_pairs(graph: Graph) -> list[LayerPair]:
    """The pairs of layers between which channels may be scaled, in graph order; none with a shared weight."""
    shared = find_weight_families(graph)
    found = [_find_pair(node) for node in graph.nodes if node.name not in shared]
    return [pair for pair in found if pair is not None and pair.second.name not in shared]


def _find_pair(first: Node) -> LayerPair | None:
    """The pair whose first layer is this node; None if there is none."""
    channels = count_layer_channels(first)
    if channels is None:
        return None
    value, bounds, width, has_slopes = first.outputs[0], None, 1, False
    while True:
        readers = list_consumers(value)
        if len(readers) != 1 or value.is_graph_output() or readers[0].graph is not first.graph:
            return None
        node = readers[0]
        if list(node.inputs).count(value) != 1 or node.inputs[0] is not value:
            return None
        op = get_operator(node)
        if count_layer_channels(node) is not None:
            return (
                LayerPair(first, node, bounds or (-np.inf, np.inf), width)
                if _count_inputs(node) == channels * width
                else None
            )
        if op == "Clip" and bounds is None and not has_slopes:
            bounds = find_bounds_around_0(node)
            if bounds is None:
                return None
        elif op == "Flatten" and width == 1:
            shape = get_shape(value)
            if get_attributes(node).get("axis", 1) != 1 or shape is None or None in shape[1:]:
                return None
            width = prod(n or 1 for n in shape[2:])
        elif op not in HOMOGENEOUS or len(node.outputs) != 1 or (op == "PRelu" and width > 1):
            return None
        # Behind a slope, the range of the first layer's output does not tell whether a Clip cuts.
        has_slopes = has_slopes or op in ("LeakyRelu", "PRelu")
        value = node.outputs[0]


def _count_inputs(node: Node) -> int:
    shape = get_constant_shape(node.inputs[WEIGHT_INPUT])
    assert shape is not None
    return count_input_channels(node, shape)


_MIN_MARGIN = 1.5
"""How many times as far as a channel's extreme a bound must be, so that other samples stay within it."""


def clip_limits(
    bounds: tuple[float, float],
    folds: Sequence[tuple[NDArray[np.float32], NDArray[np.float32]]],
) -> NDArray[np.float64]:
    """The largest factor of each channel that keeps other samples within the bounds too; at most 1 near a bound.

    The margin is 1.5, or more if any channel of one fold goes further than that beyond the other folds.

    Args:
        bounds: The bounds of the Clip.
        folds: The lowest and the highest value of each channel in each fold.
    """
    headrooms = np.sort([clip_headroom(bounds, *extremes) for extremes in folds], axis=0)
    least, next_least = headrooms[0], headrooms[min(1, len(headrooms) - 1)]
    bounded = np.isfinite(least)
    ratios = np.divide(next_least, least, out=np.ones_like(least), where=bounded & (least > 0))
    margin = ratios.max(initial=_MIN_MARGIN)
    return np.where(bounded, least / margin, np.inf)


def clip_headroom(
    bounds: tuple[float, float], least: NDArray[np.float32], greatest: NDArray[np.float32]
) -> NDArray[np.float64]:
    """How many times each channel can be scaled before it reaches a bound; infinite where none can be reached.

    A bound of 0 limits a channel in the same way at every scale.
    """
    headroom = np.full(least.shape, np.inf)
    for sign, bound, extreme in zip((-1, 1), bounds, (least, greatest), strict=True):
        if bound != 0:
            size = np.maximum(sign * extreme.astype(np.float64), np.finfo(np.float32).tiny)
            headroom = np.minimum(headroom, sign * bound / size)
    return headroom


def find_bounds_around_0(clip: Node) -> tuple[float, float] | None:
    """The bounds of a Clip; None if one is computed, or 0 does not lie between them."""
    bounds = find_clip_bounds(clip)
    return bounds if bounds is not None and bounds[0] <= 0 <= bounds[1] else None
