"""HardSwish and Add for tensors whose channels have factors of their own, written as depthwise convolutions.

A depthwise Conv with kernel size 1 has a scale for each channel. HardSwish is x · clip(x/6 + 1/2, 0, 1): its gate
reads x divided by the factors, and the product hands the factors on.

Between integer convolutions, ONNX Runtime takes 0.17 to 0.24 ns an element for this gate or summand (1.31.1, one
thread). Its QLinearAdd takes 0.11 to 0.17 ns with one value and 1.0 ns with one value for each channel. Below 64
channels the convolution takes up to 0.4 ns. DequantizeLinear, HardSwish and QuantizeLinear with per-channel scales
take 15 ns there, because the layout has channels last. The quantizers then process each value as a run of its own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import FLOAT32
from ptq.model.graph import Graph
from ptq.model.node import Node, Value, get_name, get_shape
from ptq.rewrite.edit import replace_node

MIN_CHANNELS = 64
"""Number of channels below which this convolution is slow."""
_IMAGE_RANK = 4
"""Rank of images, for which the times above were measured."""


def is_cheap_as_depthwise(value: Value) -> bool:
    """Whether a depthwise convolution with kernel size 1 of this tensor costs little."""
    shape = get_shape(value)
    if shape is None or len(shape) != _IMAGE_RANK:
        return False
    return shape[1] is not None and shape[1] >= MIN_CHANNELS


def scale_hard_swish(graph: Graph, node: Node, factors: NDArray[np.float64]) -> None:
    """Replace a HardSwish whose input is multiplied by factors; its output is multiplied by them too, in place."""
    x, name = node.inputs[0], get_name(node.outputs[0])
    assert x is not None
    line = _insert_affine_conv(
        graph, node, x, 1 / (6 * factors), np.full(len(factors), 0.5), f"{name}_line"
    )
    bounds = [graph.add_constant(np.array(b, np.float32), f"{name}_bound") for b in (0, 1)]
    gate, product = f"{name}_gate", f"{name}_product"
    clipped = graph.insert(
        "Clip", [line, *bounds], before=node, output=gate, dtype=FLOAT32, shape_like=x
    )
    result = graph.insert(
        "Mul", [x, clipped], before=node, output=product, dtype=FLOAT32, shape_like=x
    )
    replace_node(graph, node, result)


def add_per_channel(graph: Graph, node: Node, position: int, summand: NDArray[np.float64]) -> None:
    """Replace an Add of a constant by a depthwise Conv that adds one value to each channel, in place.

    Args:
        graph: The graph.
        node: The Add.
        position: Position of its constant input.
        summand: One value for each channel.
    """
    x = node.inputs[1 - position]
    assert x is not None
    name = f"{get_name(node.outputs[0])}_summed"
    replace_node(
        graph, node, _insert_affine_conv(graph, node, x, np.ones(len(summand)), summand, name)
    )


def _insert_affine_conv(
    graph: Graph,
    node: Node,
    x: Value,
    slopes: NDArray[np.float64],
    shifts: NDArray[np.float64],
    name: str,
) -> Value:
    """Insert slope · x + shift, channel by channel, before a node."""
    spatial = len(get_shape(x) or ()) - 2
    weight = slopes.astype(np.float32).reshape(-1, *(1,) * (spatial + 1))
    constants = [
        graph.add_constant(weight, f"{name}_slopes"),
        graph.add_constant(shifts.astype(np.float32), f"{name}_shifts"),
    ]
    return graph.insert(
        "Conv",
        [x, *constants],
        attrs={"group": len(slopes), "kernel_shape": [1] * spatial},
        before=node,
        output=name,
        dtype=FLOAT32,
        shape_like=x,
    )
