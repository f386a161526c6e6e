"""Depthwise convolutions whose integer kernel would subtract a zero point at padded borders."""

from __future__ import annotations

from collections.abc import Mapping

from ptq.core.target import Target
from ptq.core.types import QType
from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    get_attributes,
    get_constant_shape,
    get_name,
    get_node_name,
    get_operator,
)
from ptq.observers import TensorStats
from ptq.solver.partition.cost_model import estimate_sizes

_CACHED_ELEMENTS = 2**18
"""Elements of input and output above which float takes up to 1.4 times as long (`benchmarks/openvino_layers.py`)."""


def find_padded_depthwise_below_zero(
    graph: Graph, stats: Mapping[str, TensorStats], target: Target
) -> dict[str, str]:
    """Padded depthwise Conv nodes whose unsigned input needs a zero point, with the reason; none on most targets.

    A depthwise convolution multiplies each value only k² times, so that the integers save little there. They do where
    its tensors do not fit the cache in float.
    """
    found: dict[str, str] = {}
    if not target.float_padded_depthwise:
        return found
    size = estimate_sizes(graph)
    for node in graph.nodes:
        source = node.inputs[0] if get_operator(node) == "Conv" else None
        observed = None if source is None else stats.get(get_name(source))
        if source is None or observed is None or not observed.count or not _is_padded(node):
            continue
        if size(source) + size(node.outputs[0]) > _CACHED_ELEMENTS:
            continue
        if is_depthwise(node) and _needs_zero_point(observed, target.activation):
            found[get_node_name(node)] = (
                f"{target.source} computes a padded depthwise Conv faster in float "
                f"where its input {get_name(source)} is below zero"
            )
    return found


def is_depthwise(node: Node) -> bool:
    """Whether each output channel of a Conv reads one input channel."""
    shape = get_constant_shape(node.inputs[1])
    return shape is not None and shape[1] == 1 and get_attributes(node).get("group", 1) > 1


def _is_padded(node: Node) -> bool:
    attributes = get_attributes(node)
    same = str(attributes.get("auto_pad", "NOTSET")).startswith("SAME")
    return same or any(attributes.get("pads", ()))


def _needs_zero_point(observed: TensorStats, activation: QType) -> bool:
    """Whether the zero point of minimum and maximum is not 0: half a step or more lies below zero."""
    width = max(observed.max, 0.0) - observed.min
    return observed.min < 0 and -observed.min * activation.lsb_count >= 0.5 * width
