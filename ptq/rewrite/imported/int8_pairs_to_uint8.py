"""Moves int8 activations between quantizers to uint8: q + 128 and z + 128 stand for the same real values.

ONNX Runtime on x86 does so before it chooses kernels, where one DequantizeLinear with one reader follows a
QuantizeLinear; a tensor that is also a graph output it leaves alone, and computes its neighbours in float. So a
tensor that shall be read must be moved first.
"""

from __future__ import annotations

import numpy as np

from ptq.core.types import IntArray
from ptq.model.graph import Graph
from ptq.model.node import (
    MICROSOFT_PREFIX,
    Node,
    Value,
    constant_of,
    consumers_of,
    name_of,
    operator_of,
)
from ptq.rewrite.imported.deduplicate_quantizers import deduplicate_quantizers

_UINT8_OFFSET = 128


def pairs_to_uint8(graph: Graph) -> tuple[Graph, frozenset[str]]:
    """The same graph, without twins of quantizers, with the int8 tensors that ONNX Runtime would move in uint8.

    Returns:
        The graph, and the names of those tensors.
    """
    moved = graph.copy()
    deduplicate_quantizers(
        moved
    )  # of several like it ONNX Runtime keeps one, and not always the first
    moved.remove_unused()
    names = set()
    for node in moved.nodes:
        reader = pair_moved_to_uint8(node)
        if reader is None:
            continue
        for quantizer in (node, reader):
            zero_point = quantizer.inputs[2]
            array = constant_of(zero_point)
            assert zero_point is not None
            assert array is not None
            unsigned = (array.astype(np.int16) + _UINT8_OFFSET).astype(np.uint8)
            fresh = moved.add_constant(unsigned, f"{name_of(zero_point)}_unsigned")
            quantizer.replace_input_with(2, fresh)
        integers = node.outputs[0]
        integers.type = reader.inputs[2].type if reader.inputs[2] is not None else None
        names.add(name_of(integers))
    moved.remove_unused()
    return moved, frozenset(names)


def pair_moved_to_uint8(node: Node) -> Node | None:
    """The DequantizeLinear with which ONNX Runtime moves what a QuantizeLinear writes; None where it does not."""
    reader = _only_reader(node)
    return (
        reader
        if reader is not None and _has_int8_zero_point(node) and _has_int8_zero_point(reader)
        else None
    )


def to_uint8(q: IntArray) -> IntArray:
    """Integers of a tensor as they are once it is moved."""
    return (q.astype(np.int16) + _UINT8_OFFSET).astype(np.uint8)


def to_int8(q: IntArray) -> IntArray:
    """Integers of a moved tensor as they were."""
    return (q.astype(np.int16) - _UINT8_OFFSET).astype(np.int8)


def _only_reader(node: Node) -> Node | None:
    """The DequantizeLinear after a QuantizeLinear, where nothing else reads either."""
    if _onnx_operator(node) != "QuantizeLinear" or node.outputs[0].is_graph_output():
        return None
    readers = consumers_of(node.outputs[0])
    if len(readers) != 1 or _onnx_operator(readers[0]) != "DequantizeLinear":
        return None
    real: Value = readers[0].outputs[0]
    return readers[0] if len(list(real.uses())) + real.is_graph_output() == 1 else None


def _onnx_operator(node: Node) -> str:
    """The operator; a quantizer of Microsoft's domain counts as ONNX's."""
    return operator_of(node).removeprefix(MICROSOFT_PREFIX)


def _has_int8_zero_point(quantizer: Node) -> bool:
    array = constant_of(quantizer.inputs[2]) if len(quantizer.inputs) > 2 else None
    return array is not None and array.dtype == np.int8 and array.size == 1
