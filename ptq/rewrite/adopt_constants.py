"""Folds what other tools leave to be computed of constants: their quantization, and weights turned round.

QuantizeLinear(constant)                  → the integers
DequantizeLinear(constant) → Transpose    → DequantizeLinear of the integers transposed, its axis with them
"""

from __future__ import annotations

import numpy as np

from ptq.graph import Graph
from ptq.nodes import Node, attributes, constant, name_of, operator
from ptq.units import dequantized, quantizer


def adopt_constants(graph: Graph) -> None:
    """Make initializers of quantized constants, so that weights are seen to be weights."""
    for node in graph.nodes:
        if node.outputs[0].is_graph_output():
            continue
        if operator(node) == "QuantizeLinear":
            _quantize(graph, node)
        elif operator(node) == "Transpose":
            _transpose(graph, node)


def _quantize(graph: Graph, node: Node) -> None:
    array, found = constant(node.inputs[0]), quantizer(node, node.outputs[0])
    if array is None or array.dtype != np.float32 or found is None:
        return
    integers = graph.add_constant(found.params.quantize(array), f"{name_of(found.integers)}_folded")
    graph.redirect(node.outputs[0], integers)


def _transpose(graph: Graph, node: Node) -> None:
    source = dequantized(node.inputs[0])
    array = constant(source.integers) if source is not None else None
    if source is None or array is None:
        return
    perm = [int(a) for a in attributes(node).get("perm", range(array.ndim)[::-1])]
    name = name_of(source.integers)
    turned = graph.add_constant(np.ascontiguousarray(array.transpose(perm)), f"{name}_transposed")
    axis = source.params.axis
    real = graph.insert(
        "DequantizeLinear",
        [turned, source.scale, source.zero_point],
        attrs={} if axis is None else {"axis": perm.index(axis)},
        before=node,
        output=f"{name}_transposed_dequantized",
        dtype=np.dtype(np.float32),
        shape_like=turned,
    )
    graph.redirect(node.outputs[0], real)
