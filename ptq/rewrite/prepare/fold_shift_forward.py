"""Which shifts vanish into the biases of all that reads them?

w ∗ (x + b) = w ∗ x + Σ w·b, where nothing is padded. On integers a sum with a constant is a rounding and a pass over
the tensor, that buys nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptq.core.wording import counted
from ptq.model.channel_affine import along_channels
from ptq.model.graph import Graph
from ptq.model.layer_weights import columns, layer_channels
from ptq.model.node import Node, Value, attributes, constant, consumers, name_of, operator, shape_of
from ptq.rewrite.edit import replace, set_constant


def fold_shifts(graph: Graph) -> list[str]:
    """Fold constant summands into the biases behind them; in place.

    Returns:
        A sentence, if anything has changed.
    """
    count = 0
    for node in graph.nodes:
        found = _shift(node)
        if found is None:
            continue
        x, shift = found
        readers = consumers(node.outputs[0])
        if not readers or not all(_absorbs(reader, node, len(shift)) for reader in readers):
            continue
        for reader in readers:
            _give(graph, reader, shift)
        replace(graph, node, x)
        count += 1
    return [f"folded {counted(count, 'summand')} into the biases behind them"] if count else []


def _shift(node: Node) -> tuple[Value, NDArray[np.float64]] | None:
    """The tensor that an Add shifts and what is added to each of its channels; None for another node."""
    if operator(node) != "Add" or node.outputs[0].is_graph_output():
        return None
    for x, summand in (node.inputs, reversed(node.inputs)):
        array = constant(summand)
        shape = None if x is None else shape_of(x)
        if x is None or array is None or array.dtype != np.float32 or shape is None:
            continue
        if x.producer() is None or x.is_graph_output() or len(shape) < 2 or shape[1] is None:
            continue
        if shape != shape_of(node.outputs[0]):
            continue
        by = along_channels(array, len(shape), shape[1])
        if by is not None:
            return x, np.broadcast_to(by.astype(np.float64), (shape[1],))
    return None


def _absorbs(reader: Node, node: Node, count: int) -> bool:
    """Whether the reader is a layer without padding that reads the sum once, with as many channels."""
    if reader.graph is not node.graph or layer_channels(reader) is None:
        return False
    if list(reader.inputs).count(node.outputs[0]) != 1 or reader.inputs[0] is not node.outputs[0]:
        return False
    attrs, weight = attributes(reader), constant(reader.inputs[1])
    assert weight is not None
    table = columns(reader, weight, 1)
    padded = attrs.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or any(
        attrs.get("pads", ())
    )
    return not padded and table.shape[0] * table.shape[2] == count


def _give(graph: Graph, reader: Node, shift: NDArray[np.float64]) -> None:
    weight = constant(reader.inputs[1])
    assert weight is not None
    table = columns(reader, weight.astype(np.float64), 1)
    sums = np.einsum("gock,gc->go", table, shift.reshape(table.shape[0], -1)).reshape(-1)
    bias = constant(reader.inputs[2]) if len(reader.inputs) > 2 else None
    whole = sums if bias is None else bias.astype(np.float64) + sums
    set_constant(graph, reader, 2, whole.astype(np.float32), f"{name_of(reader.outputs[0])}_bias")
