"""How is a HardSwish, or a summand, written where every channel has a factor of its own?

Both as depthwise convolutions of one tap, whose weights have a scale each channel. HardSwish is
x · clip(x/6 + 1/2, 0, 1): its gate reads x divided by the factors, the product hands them on.

Between convolutions of integers ONNX Runtime takes 0.17 to 0.24 ns an element for such a gate or summand, where its
QLinearAdd takes 0.11 to 0.17 with one value and 1.0 with one a channel; below 64 channels up to 0.4 (1.31.1, one
thread). DequantizeLinear, HardSwish and QuantizeLinear with scales a channel take 15 there: the layout has channels
last, and the quantizers then take each value for a run of its own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptq.model.graph import Graph
from ptq.model.node import Node, Value, name_of, shape_of
from ptq.rewrite.edit import replace_node

MIN_CHANNELS = 64
"""Channels, below which such a convolution is slow."""
_IMAGE_RANK = 4
"""That of images, of which the times above are."""
_FLOAT32 = np.dtype(np.float32)


def is_cheap_as_depthwise(value: Value) -> bool:
    """Whether a depthwise convolution of one tap costs a tensor little."""
    shape = shape_of(value)
    if shape is None or len(shape) != _IMAGE_RANK:
        return False
    return shape[1] is not None and shape[1] >= MIN_CHANNELS


def scale_hard_swish(graph: Graph, node: Node, factors: NDArray[np.float64]) -> None:
    """Let a HardSwish read its input multiplied by factors, and multiply its output by them, in place."""
    x, name = node.inputs[0], name_of(node.outputs[0])
    assert x is not None
    line = _insert_affine_conv(
        graph, node, x, 1 / (6 * factors), np.full(len(factors), 0.5), f"{name}_line"
    )
    bounds = [graph.add_constant(np.array(b, np.float32), f"{name}_bound") for b in (0, 1)]
    gate, product = f"{name}_gate", f"{name}_product"
    clipped = graph.insert(
        "Clip", [line, *bounds], before=node, output=gate, dtype=_FLOAT32, shape_like=x
    )
    opened = graph.insert(
        "Mul", [x, clipped], before=node, output=product, dtype=_FLOAT32, shape_like=x
    )
    replace_node(graph, node, opened)


def add_per_channel(graph: Graph, node: Node, position: int, summand: NDArray[np.float64]) -> None:
    """Let an Add of a constant, its input at a position, add these values to the channels, in place."""
    x = node.inputs[1 - position]
    assert x is not None
    name = f"{name_of(node.outputs[0])}_summed"
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
    """Slope · x + shift, channel by channel, before a node."""
    spatial = len(shape_of(x) or ()) - 2
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
        dtype=_FLOAT32,
        shape_like=x,
    )
