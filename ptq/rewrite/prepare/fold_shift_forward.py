"""Add of a constant → the biases of the layers behind it.

    w ∗ (x + b) = w ∗ x + Σ w·b        for layers without padding

On integers a sum with a constant costs a rounding and a pass over the tensor, for nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    get_attributes,
    get_constant,
    get_name,
    get_operator,
    get_shape,
    list_consumers,
    require_constant,
)
from ptq.model.weights.channel_affine import to_per_channel_constant
from ptq.model.weights.layer_weights import count_layer_channels, view_input_channels
from ptq.rewrite.change import Change
from ptq.rewrite.edit import replace_node, set_constant


def fold_shift_forward(graph: Graph) -> list[Change]:
    """Fold constant summands into the biases behind them, in place."""
    count = 0
    for node in graph.nodes:
        found = _match_shift(node)
        if found is None:
            continue
        x, shift = found
        readers = list_consumers(node.outputs[0])
        if not readers or not all(_can_absorb(reader, node, len(shift)) for reader in readers):
            continue
        for reader in readers:
            _add_to_bias(graph, reader, shift)
        replace_node(graph, node, x)
        count += 1
    return [Change("fold_shift_forward", count)] if count else []


def _match_shift(node: Node) -> tuple[Value, NDArray[np.float64]] | None:
    """The tensor that an Add shifts, and the summand of each channel; None if the node is something else."""
    if get_operator(node) != "Add" or node.outputs[0].is_graph_output():
        return None
    for x, summand in (node.inputs, reversed(node.inputs)):
        array = get_constant(summand)
        shape = None if x is None else get_shape(x)
        if x is None or array is None or array.dtype != np.float32 or shape is None:
            continue
        if x.producer() is None or x.is_graph_output() or len(shape) < 2 or shape[1] is None:
            continue
        if shape != get_shape(node.outputs[0]):
            continue
        shift = to_per_channel_constant(array, len(shape), shape[1])
        if shift is not None:
            return x, np.broadcast_to(shift.astype(np.float64), (shape[1],))
    return None


def _can_absorb(reader: Node, node: Node, count: int) -> bool:
    """Whether the reader is a layer without padding that reads the sum once and has this number of channels."""
    if reader.graph is not node.graph or count_layer_channels(reader) is None:
        return False
    if list(reader.inputs).count(node.outputs[0]) != 1 or reader.inputs[0] is not node.outputs[0]:
        return False
    attrs, weight = get_attributes(reader), get_constant(reader.inputs[1])
    assert weight is not None
    table = view_input_channels(reader, weight, 1)
    padded = attrs.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or any(
        attrs.get("pads", ())
    )
    return not padded and table.shape[0] * table.shape[2] == count


def _add_to_bias(graph: Graph, reader: Node, shift: NDArray[np.float64]) -> None:
    weight = require_constant(reader.inputs[1])
    table = view_input_channels(reader, weight.astype(np.float64), 1)
    sums = np.einsum("gock,gc->go", table, shift.reshape(table.shape[0], -1)).reshape(-1)
    bias = get_constant(reader.inputs[2]) if len(reader.inputs) > 2 else None
    whole = sums if bias is None else bias.astype(np.float64) + sums
    set_constant(graph, reader, 2, whole.astype(np.float32), f"{get_name(reader.outputs[0])}_bias")
