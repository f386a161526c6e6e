"""Reshape → Gemm → Reshape → MatMul and Add, for a runtime that fuses around products of any rank.

Preparation writes a dense layer of more than two axes as a Gemm between two Reshapes, so that integers hold the bias.
Measured in OpenVINO 2026.4: its product takes an activation function and the next quantizer into its kernel, but not
past a Reshape. A vision transformer takes 5 % less time without these Reshapes.
"""

from __future__ import annotations

from typing import Any

from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    attributes_of,
    consumers_of,
    dtype_of,
    is_constant,
    name_of,
    operator_of,
    shape_of,
)
from ptq.rewrite.edit import replace_node

_NEUTRAL = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}


def write_dense_as_matmul(graph: Graph) -> None:
    """Replace quantized Gemm nodes between Reshapes that keep all axes but the last, in place.

    The quantizers of a Gemm's input move before the Reshape, with all Gemm nodes that read them or with none.
    """
    for node in list(graph.nodes):
        flat = node.inputs[0] if operator_of(node) == "Reshape" else None
        if flat is None:
            continue
        readers = consumers_of(node.outputs[0])
        pairs = [_dequantized(reader) for reader in readers]
        layers = [layer for pair in pairs if pair is not None for layer in consumers_of(pair)]
        if not layers or None in pairs or node.outputs[0].is_graph_output():
            continue
        if all(_keeps_axes(layer, flat) for layer in layers):
            for reader in readers:
                reader.replace_input_with(0, flat)
                for value in (reader.outputs[0], *(pair for pair in pairs if pair is not None)):
                    value.shape = flat.shape
            for layer in layers:
                _write_matmul(graph, layer)


def _dequantized(quantizer: Node) -> Value | None:
    """What a QuantizeLinear and the DequantizeLinear behind it return; None for other nodes."""
    if operator_of(quantizer) != "QuantizeLinear":
        return None
    after = consumers_of(quantizer.outputs[0])
    if len(after) != 1 or operator_of(after[0]) != "DequantizeLinear":
        return None
    return after[0].outputs[0]


def _keeps_axes(layer: Node, source: Value) -> bool:
    """Whether the layer is a plain Gemm, and the only reader of its output restores the axes of the source."""
    attributes: dict[str, Any] = {**_NEUTRAL, **attributes_of(layer)}
    if operator_of(layer) != "Gemm" or attributes != _NEUTRAL or len(layer.inputs) < 3:
        return False
    y, bias = layer.outputs[0], layer.inputs[2]
    after = consumers_of(y)
    if bias is None or not is_constant(bias) or y.is_graph_output() or len(after) != 1:
        return False
    weight = None if layer.inputs[1] is None else shape_of(layer.inputs[1])
    before = shape_of(source)
    if not weight or not before or weight[0] != before[-1]:  # a Reshape may regroup the last axis
        return False
    axes = _axes_before_last(source)
    return (
        operator_of(after[0]) == "Reshape"
        and axes is not None
        and axes == _axes_before_last(after[0].outputs[0])
    )


def _axes_before_last(value: Value) -> list[int | str] | None:
    """Lengths by number or name; None where they cannot be compared. One without a name follows from the others."""
    shape = shape_of(value)
    if shape is None or value.shape is None or len(shape) < 3 or shape[-1] is None:
        return None
    if shape.count(None) < 2:
        return ["" if d is None else d for d in shape[:-1]]
    found: list[int | str] = []
    for length, symbol in zip(shape[:-1], value.shape, strict=False):
        name = length if isinstance(symbol, int) else length or symbol.value
        if name is None:
            return None
        found.append(name)
    return found


def _write_matmul(graph: Graph, layer: Node) -> None:
    name, last = layer.name, consumers_of(layer.outputs[0])[0]
    product = graph.insert(
        "MatMul", layer.inputs[:2], before=last, output=f"{name_of(last.outputs[0])}_product",
        dtype=dtype_of(last.outputs[0]), shape_like=last.outputs[0],
    )  # fmt: skip
    total = graph.insert(
        "Add", [product, layer.inputs[2]], before=last,
        output=f"{name_of(last.outputs[0])}_sum", dtype=dtype_of(last.outputs[0]), shape_like=last.outputs[0],
    )  # fmt: skip
    replace_node(graph, last, total)
    graph.remove(layer)
    maker = product.producer()
    assert maker is not None
    maker.name = name
