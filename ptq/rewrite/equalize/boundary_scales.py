"""How do the channels of a tensor between integers and float come by factors that one side alone sees?

By a Mul with a constant a channel, before quantizers are there; then by the scales of these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from ptq.model.graph import Graph
from ptq.model.node import Node, Value, constant_of, consumers_of, name_of, operator_of, shape_of
from ptq.rewrite.edit import replace_node, set_attributes

_FLOAT32 = np.dtype(np.float32)


def insert_boundary_scale(
    graph: Graph, value: Value, factors: NDArray[np.float64], seeing: Collection[str]
) -> None:
    """Let the nodes that see a tensor's factors read its channels multiplied by them, the others without, in place.

    Args:
        graph: The graph.
        value: The tensor; where its writer sees the factors, it has them.
        factors: One a channel.
        seeing: Names of nodes.
    """
    writer = value.producer()
    assert writer is not None
    has = writer.name in seeing
    by = 1 / factors if has else factors
    shape = (-1, *(1,) * (len(shape_of(value) or ()) - 2))
    name = f"{name_of(value)}_{'as_it_is' if has else 'scaled'}"
    constants = graph.add_constant(by.astype(np.float32).reshape(shape), f"{name}_factors")
    uses = [use for use in value.uses() if (use.node.name in seeing) != has]
    product = graph.insert(
        "Mul", [value, constants], after=writer, output=name, dtype=_FLOAT32, shape_like=value
    )
    for use in uses:
        use.node.replace_input_with(use.idx, product)
    if has and value.is_graph_output():
        scaled = graph.unique_name(f"{name_of(value)}_scaled")
        graph.replace_output(value, product)
        value.name = scaled


def is_channel_scaling(node: Node) -> bool:
    """Whether a node multiplies each channel by a positive constant."""
    by = _channel_factors(node)
    return by is not None and bool((by > 0).all())


def boundary_scale_nodes(graph: Graph, shores: Mapping[str, Collection[str]]) -> list[Node]:
    """The Muls that `part_shore` has put into a graph that is not quantized yet."""
    return [
        node
        for node in graph.nodes
        if _channel_factors(node) is not None
        and (
            (node.inputs[0] is not None and node.inputs[0].name in shores)
            or (node.outputs[0].is_graph_output() and node.outputs[0].name in shores)
        )
    ]


def fold_boundary_scales(graph: Graph, nodes: Iterable[Node]) -> None:
    """Let quantizers do with scales a channel what Muls do beside them, in place."""
    for node in nodes:
        by, value = _channel_factors(node), node.inputs[0]
        maker = None if value is None else value.producer()
        if by is None or value is None:
            continue
        readers = consumers_of(node.outputs[0])
        if maker is not None and operator_of(maker) == "DequantizeLinear" and _is_per_tensor(maker):
            real = graph.insert(
                "DequantizeLinear",
                maker.inputs,
                after=maker,
                output=f"{name_of(node.outputs[0])}_dequantized",
                dtype=_FLOAT32,
                shape_like=value,
            )
            _scale_quantizer(graph, real.producer(), by)
            replace_node(graph, node, real)
        elif readers and all(
            operator_of(n) == "QuantizeLinear" and _is_per_tensor(n) for n in readers
        ):
            graph.redirect(node.outputs[0], value)
            for reader in readers:
                _scale_quantizer(graph, reader, 1 / by)


def _scale_quantizer(graph: Graph, quantizer: Node | None, by: NDArray[np.float64]) -> None:
    """Multiply a quantizer's scale by a factor a channel, in place."""
    assert quantizer is not None
    scale, zero_point = (constant_of(value) for value in quantizer.inputs[1:])
    assert scale is not None and zero_point is not None
    for position, array, hint in (
        (1, (scale * by).astype(np.float32), "scales"),
        (2, np.full(len(by), zero_point), "zero_points"),
    ):
        made = graph.add_constant(array, f"{name_of(quantizer.outputs[0])}_{hint}")
        quantizer.replace_input_with(position, made)
    set_attributes(quantizer, axis=1)


def _is_per_tensor(quantizer: Node) -> bool:
    """Whether it has one scale and zero point, both constant."""
    given = [constant_of(value) for value in quantizer.inputs[1:]]
    return len(given) == 2 and all(array is not None and array.ndim == 0 for array in given)


def _channel_factors(node: Node) -> NDArray[np.float64] | None:
    """The factors of a Mul with one a channel, along axis 1; None for other nodes."""
    shape = shape_of(node.outputs[0])
    by = constant_of(node.inputs[1]) if operator_of(node) == "Mul" else None
    if by is None or shape is None or len(shape) < 2:
        return None
    if by.shape != (shape[1], *(1,) * (len(shape) - 2)):
        return None
    return by.reshape(-1).astype(np.float64)
