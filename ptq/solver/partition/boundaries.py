"""Tensors between integers and float at which every channel may have its own scale at almost no cost.

A DequantizeLinear or QuantizeLinear stands there anyway. With one scale for each channel it takes as long as with
one scale where the values of a channel lie side by side, plus up to 13 ns for each run of them (ONNX Runtime 1.31.1,
one thread). Between integer convolutions, whose layout has channels last, each value is a run of its own. A float
operator that computes channels first stops a layout, so that it does not pass from one boundary to another. A
Transpose does the same: ONNX Runtime moves it past quantizers, which may then have channels last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping

from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    get_name,
    get_node_name,
    get_operator,
    get_shape,
    is_float32,
    list_consumers,
    list_values_read,
)

Boundaries = Mapping[str, tuple[str, ...]]
"""By tensor, the integer nodes that write or read it; only they see its channels multiplied by factors."""

_CHANNELS_FIRST = frozenset(
    ["AveragePool", "Conv", "ConvTranspose", "GlobalAveragePool", "GlobalMaxPool", "InstanceNormalization", "MaxPool"]
)  # fmt: skip
_MIN_RUN = 16
"""Values of a channel in a row; below that number the run itself takes longer than its values."""


def find_per_channel_boundaries(
    graph: Graph, floats: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """The tensors between integers and float that ONNX Runtime keeps channels first.

    Args:
        graph: A prepared graph, shapes inferred.
        floats: Names of the nodes that stay float. Graph outputs are float too.
    """
    found: dict[str, tuple[str, ...]] = {}
    for writer in graph.nodes:
        if len(writer.outputs) != 1:
            continue
        value = writer.outputs[0]
        readers = list_consumers(value)
        if any(reader.graph is not writer.graph for reader in readers) or not _has_runs(value):
            continue
        in_float = [node for node in readers if node.name in floats]
        integers = [node for node in readers if node.name not in floats]
        if writer.name not in floats:
            if not in_float and not value.is_graph_output():
                continue
            if not any(_has_path_to_layout(node, floats, _list_float_readers) for node in in_float):
                found[get_name(value)] = _list_node_names([writer, *integers])
        elif integers and not _has_path_to_layout(writer, floats, _list_float_writers):
            found[get_name(value)] = _list_node_names(integers)
    return found


def _list_node_names(nodes: Iterable[Node]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(get_node_name(node) for node in nodes))


def _has_runs(value: Value) -> bool:
    """Whether the tensor has several channels along axis 1, and enough values in each; an unknown size is enough."""
    shape = get_shape(value)
    if not is_float32(value) or shape is None or len(shape) < 3 or (shape[1] or 0) < 2:
        return False
    return None in shape[2:] or math.prod(n or 0 for n in shape[2:]) >= _MIN_RUN


def _has_path_to_layout(
    start: Node, floats: Collection[str], neighbours: Callable[[Node], Iterable[Node]]
) -> bool:
    """Whether a path of float nodes that do not compute channels first leads to an integer node or a Transpose."""
    visited, ahead = {start}, [start]
    while ahead:
        node = ahead.pop()
        if node.name not in floats or get_operator(node) == "Transpose":
            return True
        if get_operator(node) not in _CHANNELS_FIRST:
            new = [other for other in neighbours(node) if other not in visited]
            visited.update(new)
            ahead += new
    return False


def _list_float_readers(node: Node) -> list[Node]:
    return [
        reader for value in node.outputs if is_float32(value) for reader in list_consumers(value)
    ]


def _list_float_writers(node: Node) -> list[Node]:
    makers = [value.producer() for value in list_values_read(node) if is_float32(value)]
    return [maker for maker in makers if maker is not None]
