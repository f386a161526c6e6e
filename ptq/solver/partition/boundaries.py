"""At which tensors between integers and float may every channel have a scale of its own at next to no cost?

There a DequantizeLinear or QuantizeLinear stands anyway. With a scale each channel it takes as long as with one where
a channel's values lie side by side, and up to 13 ns a run of them more (ONNX Runtime 1.31.1, one thread). Between
integer convolutions, whose layout has channels last, each value is a run of its own. What computes channels first
parts an island's shores from each other, so that no layout passes from one to the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping

import numpy as np

from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    consumers_of,
    dtype_of,
    name_of,
    operator_of,
    shape_of,
    values_read_by,
)

Boundaries = Mapping[str, tuple[str, ...]]
"""By tensor, the nodes that write or read it on integers: they alone see its channels multiplied by factors."""

_CHANNELS_FIRST = frozenset(
    ["AveragePool", "Conv", "ConvTranspose", "GlobalAveragePool", "GlobalMaxPool", "InstanceNormalization", "MaxPool"]
)  # fmt: skip
_FLOAT32 = np.dtype(np.float32)
_MIN_RUN = 16
"""Values of a channel, below which a run's own time is more than that of its values."""


def per_channel_boundaries(graph: Graph, floats: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Those tensors of a prepared graph, shapes inferred, that ONNX Runtime has channels first.

    Args:
        graph: The graph.
        floats: Names of the nodes that stay float; outputs do too.
    """
    found: dict[str, tuple[str, ...]] = {}
    for writer in graph.nodes:
        if len(writer.outputs) != 1:
            continue
        value = writer.outputs[0]
        readers = consumers_of(value)
        if any(reader.graph is not writer.graph for reader in readers) or not _has_runs(value):
            continue
        real = [node for node in readers if node.name in floats]
        integers = [node for node in readers if node.name not in floats]
        if writer.name not in floats:
            if not real and not value.is_graph_output():
                continue
            if not any(_reaches_integers(node, floats, _float_readers) for node in real):
                found[name_of(value)] = _node_names([writer, *integers])
        elif integers and not _reaches_integers(writer, floats, _float_writers):
            found[name_of(value)] = _node_names(integers)
    return found


def _node_names(nodes: Iterable[Node]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(node.name or "" for node in nodes))


def _has_runs(value: Value) -> bool:
    """Whether it has several channels along axis 1, and enough values of each, so far as is known."""
    shape = shape_of(value)
    if dtype_of(value) != _FLOAT32 or shape is None or len(shape) < 3 or (shape[1] or 0) < 2:
        return False
    return None in shape[2:] or math.prod(n or 0 for n in shape[2:]) >= _MIN_RUN


def _reaches_integers(
    start: Node, floats: Collection[str], beside: Callable[[Node], Iterable[Node]]
) -> bool:
    """Whether real numbers lead from a float node to an integer one past none that computes channels first."""
    seen, left = {start}, [start]
    while left:
        node = left.pop()
        if node.name not in floats:
            return True
        if operator_of(node) not in _CHANNELS_FIRST:
            new = [other for other in beside(node) if other not in seen]
            seen.update(new)
            left += new
    return False


def _float_readers(node: Node) -> list[Node]:
    return [
        reader for value in node.outputs if _is_float32(value) for reader in consumers_of(value)
    ]


def _float_writers(node: Node) -> list[Node]:
    makers = [value.producer() for value in values_read_by(node) if _is_float32(value)]
    return [maker for maker in makers if maker is not None]


def _is_float32(value: Value) -> bool:
    return dtype_of(value) == _FLOAT32
