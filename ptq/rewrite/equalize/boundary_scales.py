"""Factors for the channels of a tensor between integers and float that only the nodes on one side see.

Before quantization, a Mul with one constant for each channel applies them. In the quantized graph, per-channel scales
of the quantizers replace the Mul.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import FLOAT32
from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    get_constant,
    get_name,
    get_operator,
    get_shape,
    list_consumers,
)
from ptq.rewrite.edit import replace_node, set_attributes


def insert_boundary_scale(
    graph: Graph, value: Value, factors: NDArray[np.float64], scaled_for: Collection[str]
) -> None:
    """Let some nodes read the channels of a tensor multiplied by factors and the others without, in place.

    Args:
        graph: The graph.
        value: The tensor; it is already multiplied if its writer is one of these nodes.
        factors: One for each channel.
        scaled_for: Names of the nodes that read or write the multiplied channels.
    """
    writer = value.producer()
    assert writer is not None
    is_scaled = writer.name in scaled_for
    by = 1 / factors if is_scaled else factors
    shape = (-1, *(1,) * (len(get_shape(value) or ()) - 2))
    name = f"{get_name(value)}_{'as_it_is' if is_scaled else 'scaled'}"
    constants = graph.add_constant(by.astype(np.float32).reshape(shape), f"{name}_factors")
    uses = [use for use in value.uses() if (use.node.name in scaled_for) != is_scaled]
    product = graph.insert(
        "Mul", [value, constants], after=writer, output=name, dtype=FLOAT32, shape_like=value
    )
    for use in uses:
        use.node.replace_input_with(use.idx, product)
    if is_scaled and value.is_graph_output():
        scaled = graph.unique_name(f"{get_name(value)}_scaled")
        graph.replace_output(value, product)
        value.name = scaled


def is_channel_scaling(node: Node) -> bool:
    """Whether a node multiplies each channel by a positive constant."""
    factors = _find_channel_factors(node)
    return factors is not None and bool((factors > 0).all())


def find_boundary_scale_nodes(
    graph: Graph, boundaries: Mapping[str, Collection[str]]
) -> list[Node]:
    """The Mul nodes that `insert_boundary_scale` has inserted into a graph that is not quantized yet."""
    return [
        node
        for node in graph.nodes
        if _find_channel_factors(node) is not None
        and (
            (node.inputs[0] is not None and node.inputs[0].name in boundaries)
            or (node.outputs[0].is_graph_output() and node.outputs[0].name in boundaries)
        )
    ]


def fold_boundary_scales(graph: Graph, nodes: Iterable[Node]) -> None:
    """Replace Mul nodes next to quantizers by per-channel scales of these quantizers, in place."""
    for node in nodes:
        factors, value = _find_channel_factors(node), node.inputs[0]
        maker = None if value is None else value.producer()
        if factors is None or value is None:
            continue
        readers = list_consumers(node.outputs[0])
        if (
            maker is not None
            and get_operator(maker) == "DequantizeLinear"
            and _is_per_tensor(maker)
        ):
            real = graph.insert(
                "DequantizeLinear",
                maker.inputs,
                after=maker,
                output=f"{get_name(node.outputs[0])}_dequantized",
                dtype=FLOAT32,
                shape_like=value,
            )
            _scale_quantizer(graph, real.producer(), factors)
            replace_node(graph, node, real)
        elif readers and all(
            get_operator(n) == "QuantizeLinear" and _is_per_tensor(n) for n in readers
        ):
            graph.redirect(node.outputs[0], value)
            for reader in readers:
                _scale_quantizer(graph, reader, 1 / factors)


def _scale_quantizer(graph: Graph, quantizer: Node | None, factors: NDArray[np.float64]) -> None:
    """Give a quantizer per-channel scales, its scale times one factor for each channel, in place."""
    assert quantizer is not None
    scale, zero_point = (get_constant(value) for value in quantizer.inputs[1:])
    assert scale is not None and zero_point is not None
    for position, array, hint in (
        (1, (scale * factors).astype(np.float32), "scales"),
        (2, np.full(len(factors), zero_point), "zero_points"),
    ):
        constant = graph.add_constant(array, f"{get_name(quantizer.outputs[0])}_{hint}")
        quantizer.replace_input_with(position, constant)
    set_attributes(quantizer, axis=1)


def _is_per_tensor(quantizer: Node) -> bool:
    """Whether the quantizer has one scale and one zero point, both constant."""
    params = [get_constant(value) for value in quantizer.inputs[1:]]
    return len(params) == 2 and all(array is not None and array.ndim == 0 for array in params)


def _find_channel_factors(node: Node) -> NDArray[np.float64] | None:
    """The factors of a Mul with one factor for each channel, along axis 1; None for other nodes."""
    shape = get_shape(node.outputs[0])
    factors = get_constant(node.inputs[1]) if get_operator(node) == "Mul" else None
    if factors is None or shape is None or len(shape) < 2:
        return None
    if factors.shape != (shape[1], *(1,) * (len(shape) - 2)):
        return None
    return factors.reshape(-1).astype(np.float64)
