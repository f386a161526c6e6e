"""Constant folding for what other tools leave in the graph: quantization of constants, transposed weights.

QuantizeLinear(constant)                  → the integers
DequantizeLinear(constant) → Transpose    → DequantizeLinear of the transposed integers, with the axis moved along
DequantizeLinear(constant), a bound or fill value → the real number
"""

from __future__ import annotations

import numpy as np

from ptq.core.opspec import OpSpec, Role
from ptq.core.types import FLOAT32
from ptq.model.graph import Graph
from ptq.model.node import Node, get_attributes, get_constant, get_name, get_operator, get_spec
from ptq.model.qdq.qdq_units import find_quantized_source, read_quantizer
from ptq.rewrite.change import Change


def fold_quantized_constants(graph: Graph) -> list[Change]:
    """Replace quantized constants by initializers, in place, so that weights are recognized."""
    count = 0
    for node in graph.nodes:
        if node.outputs[0].is_graph_output():
            continue
        if get_operator(node) == "QuantizeLinear":
            count += _fold_quantize(graph, node)
        elif get_operator(node) == "Transpose":
            count += _fold_transpose(graph, node)
        elif (spec := get_spec(node)) is not None:
            count += _fold_dequantized_values(graph, node, spec)
    if not count:
        return []
    graph.remove_unused()
    return [Change("fold_quantized_constants", count)]


def _fold_quantize(graph: Graph, node: Node) -> bool:
    array, found = get_constant(node.inputs[0]), read_quantizer(node, node.outputs[0])
    if array is None or array.dtype != np.float32 or found is None:
        return False
    integers = graph.add_constant(
        found.params.quantize(array), f"{get_name(found.integers)}_folded"
    )
    graph.redirect(node.outputs[0], integers)
    return True


def _fold_dequantized_values(graph: Graph, node: Node, spec: OpSpec) -> int:
    count = 0
    for position, value in enumerate(node.inputs):
        found = find_quantized_source(value) if spec.role_of(position) is Role.VALUE else None
        array = get_constant(found.integers) if found is not None else None
        if found is not None and array is not None and value is not None:
            real = graph.add_constant(found.params.dequantize(array), f"{get_name(value)}_folded")
            node.replace_input_with(position, real)
            count += 1
    return count


def _fold_transpose(graph: Graph, node: Node) -> bool:
    source = find_quantized_source(node.inputs[0])
    array = get_constant(source.integers) if source is not None else None
    if source is None or array is None:
        return False
    perm = [int(a) for a in get_attributes(node).get("perm", range(array.ndim)[::-1])]
    name = get_name(source.integers)
    transposed = np.ascontiguousarray(array.transpose(perm))
    integers = graph.add_constant(transposed, f"{name}_transposed")
    axis = source.params.axis
    real = graph.insert(
        "DequantizeLinear",
        [integers, source.scale, source.zero_point],
        attrs={} if axis is None else {"axis": perm.index(axis)},
        before=node,
        output=f"{name}_transposed_dequantized",
        dtype=FLOAT32,
        shape_like=integers,
    )
    graph.redirect(node.outputs[0], real)
    return True
